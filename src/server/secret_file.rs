//! Files with secrets in them: the clients' key pairs and the admin's tokens.

use std::io;
use std::path::Path;

/// Reads a file that somebody else should not read or write, and says so in the log where they can.
/// It is no error: a Kubernetes secret, for one, is mounted readable by everybody in its container.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    if is_open_to_others(path) {
        tracing::warn!(
            path = %path.display(),
            "the file holds secrets and is open to other users; chmod 600 closes it"
        );
    }
    Ok(text)
}

/// Whether those who are neither the owner nor in the group may do anything with it, or the group
/// may change it.
#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS: u32 = 0o007;
    const GROUP_WRITES: u32 = 0o020;
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.permissions().mode() & (OTHERS | GROUP_WRITES) != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_path: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_open_when_others_may_do_anything_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let modes = [(0o600, false), (0o400, false), (0o640, false), (0o660, true)];
        for (mode, open) in modes.into_iter().chain([(0o644, true), (0o602, true), (0o601, true)]) {
            std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to_others(file.path()), open, "{mode:o}");
        }
        assert!(read(file.path()).is_ok(), "it is read all the same");
        assert!(read(Path::new("/nowhere/at-all")).is_err());
    }
}
