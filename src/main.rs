//! The `fencepost` binary: commands, exit codes, nothing else.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
