//! Tests that have a process of their own.

use std::env;
use std::process::Command;

/// Runs `body` in a process of its own, because it measures or limits the process as a whole: this program is started
/// again for this one test.
pub fn alone(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "COREHTTP_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let mut own = Command::new(env::current_exe().unwrap());
    let ran = own.args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
