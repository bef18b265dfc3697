//! The layers together: over which wins which, what is wrong, and what a project may do.

mod errors;
mod layers;
mod projects;
mod shipped;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Key, Settings, Surroundings};

/// A machine with a system's file, a user's and a project's, of which none is there yet.
struct Machine {
    root: tempfile::TempDir,
    around: Surroundings,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("project/deep/below")).expect("made");
        std::fs::create_dir(path("project/.git")).expect("made");
        let around = Surroundings {
            system: vec![path("system.toml"), path("lower.toml")],
            user: Some(path("user.toml")),
            directory: Some(path("project/deep/below")),
            ..Surroundings::default()
        };
        Self { root, around }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn variable(&mut self, name: &str, value: impl Into<OsString>) {
        self.around.environment.insert(name.into(), value.into());
    }

    fn settings(&self) -> Settings {
        Settings::load(&self.around).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn wrong(&self) -> String {
        let told = Settings::load(&self.around).expect_err("is wrong").to_string();
        // The folder is another one each time.
        told.replace(&format!("{}/", self.root.path().display()), "")
    }

    /// The value of a key, and where it comes from.
    fn value(&self, key: &str) -> (String, String) {
        let key = Key::new(key.split('.'));
        let settings = self.settings();
        let valued = settings.values.get(&key).unwrap_or_else(|| panic!("{key} is set"));
        let origin = valued.origin.to_string().replace(&format!("{}/", self.root.path().display()), "");
        (valued.shown(&key).unwrap_or_default(), origin)
    }
}

fn trusting(folder: &Path) -> String {
    format!("trusted_projects = [{:?}]\n", folder.display().to_string())
}
