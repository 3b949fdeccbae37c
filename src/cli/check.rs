//! `fencepost config check FILE`: everything that is wrong with a file.
//!
//! The file alone is looked at, not the environment, so that the answer is the same everywhere.

use std::path::Path;
use std::process::ExitCode;

use fencepost::config::{Config, ConfigFile, Environment, Purpose, Sources};

use super::{Failure, print, print_error};

/// Exit code 0 when nothing is wrong, else 1.
pub(crate) fn run(path: &Path) -> Result<ExitCode, Failure> {
    let file = ConfigFile::read(path)?;
    let name = file.name.clone();
    let sources =
        Sources { file: Some(file), environment: Environment::default(), flags: Vec::new() };
    match Config::load(&sources, Purpose::Other) {
        Ok(config) => {
            print(&format!("{name}: every setting is right\n"));
            if config.backend.url.is_none() {
                print(&format!(
                    "{name}: backend.url is not set here; serve takes it from --backend or \
                     FENCEPOST_BACKEND_URL then\n"
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            print_error(&wrong);
            Ok(ExitCode::FAILURE)
        }
    }
}
