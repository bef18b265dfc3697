//! The project's file: where it is, and what it may set.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use super::read::Assigned;
use super::{Key, Layer, Origin, Problem, Source, Wrong};

/// The names it may have.
const NAMES: [&str; 2] = [".ostler.toml", "ostler.toml"];

/// What a project's file may set without anybody's trust: it chooses among what is configured, and adds nothing.
const HARMLESS: [&str; 1] = ["default_harness"];

/// What was found of a project's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// It is this one, in this folder.
    File(PathBuf, PathBuf),
    /// It belongs to somebody else, who may be anybody.
    Foreign(PathBuf),
    /// There are two in one folder.
    Two(PathBuf, PathBuf),
}

/// Looks for a project's file from a directory upwards, until the root of a repository or of the file system. A file
/// that is of another layer is no project's.
pub(super) fn find(directory: &Path, others: &[PathBuf]) -> Found {
    let others: Vec<_> = others.iter().filter_map(|path| path.canonicalize().ok()).collect();
    for folder in directory.ancestors() {
        let is_project = |path: &PathBuf| {
            path.symlink_metadata().is_ok() && !path.canonicalize().is_ok_and(|real| others.contains(&real))
        };
        let mut there = NAMES.map(|name| folder.join(name)).into_iter().filter(is_project);
        match (there.next(), there.next()) {
            (Some(one), Some(other)) => return Found::Two(one, other),
            (Some(path), None) if is_foreign(&path) => return Found::Foreign(path),
            (Some(path), None) => return Found::File(path, folder.to_owned()),
            (None, _) => {}
        }
        if folder.join(".git").symlink_metadata().is_ok() {
            break;
        }
    }
    Found::Nothing
}

/// Who owns a file could write into it whatever he wants others to obey.
fn is_foreign(path: &Path) -> bool {
    let mine = |uid: u32| uid == Uid::effective().as_raw() || uid == 0;
    // One that leads nowhere is told as such when it is read.
    let owners = [path.symlink_metadata(), path.metadata()];
    owners.into_iter().flatten().any(|file| !mine(file.uid()))
}

/// Whether the folder of a project's file is one of those the user trusts.
pub(super) fn is_trusted(folder: &Path, trusted: &[PathBuf]) -> bool {
    let real = folder.canonicalize().ok();
    real.is_some_and(|real| trusted.iter().any(|path| path.canonicalize().is_ok_and(|path| path == real)))
}

/// What of a project's file is obeyed; the rest is named.
pub(super) fn obeyed(assigned: Vec<Assigned>, folder: &Path, trusted: bool) -> (Vec<Assigned>, Vec<Problem>) {
    let mut problems = Vec::new();
    let obeyed = assigned.into_iter().filter_map(|value| match refusal(&value.key, folder, trusted) {
        Some(wrong) => {
            problems.push(Problem { origin: value.origin, wrong });
            None
        }
        None => Some(value),
    });
    let obeyed = obeyed.collect();
    problems.sort_by_key(|problem| problem.origin.line);
    (obeyed, problems)
}

fn refusal(key: &Key, folder: &Path, trusted: bool) -> Option<Wrong> {
    if key.is_within(&Key::new(["trusted_projects"])) {
        return Some(Wrong::NeverOfProject { key: key.clone() });
    }
    let harmless = HARMLESS.iter().any(|name| *key == Key::new([*name]));
    (!trusted && !harmless).then(|| Wrong::NotTrusted { key: key.clone(), folder: folder.to_owned() })
}

/// Two files of one project.
pub(super) fn twice(one: PathBuf, other: PathBuf) -> Problem {
    let source = std::sync::Arc::new(Source::File(Layer::Project, one));
    Problem { origin: Origin { source, line: None }, wrong: Wrong::Twice(other) }
}
