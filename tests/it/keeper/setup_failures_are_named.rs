//! A start that fails says at which step, of what, and leaves nothing.

use std::os::unix::fs::PermissionsExt;

use ostler_keeper::{Report, SetupStep};

use crate::support::keeper_client::Recipe;

fn failure(recipe: &Recipe) -> (SetupStep, i32, String) {
    let mut client = recipe.open();
    let failure = client.until("failure", |report| match report {
        Report::OpenFailed { step, errno, text } => Some((*step, *errno, text.clone())),
        Report::Opened { .. } => panic!("opened"),
        _ => None,
    });
    let code = client.process.take().expect("spawned").wait().expect("ends").code();
    assert_eq!((code, recipe.folder().exists()), (Some(2), false));
    failure
}

#[test]
fn a_missing_program_names_the_path_it_was_looked_for_in() {
    let mut recipe = Recipe::command(vec!["no-such-agent".into()]);
    recipe.open.environment = vec!["PATH=/nowhere:/usr/bin".into()];
    let expected = (SetupStep::Exec, 2, "no-such-agent (looked for in /nowhere:/usr/bin)".to_owned());
    assert_eq!(failure(&recipe), expected);
}

#[test]
fn a_directory_a_plain_file_and_a_bad_interpreter_are_no_programs() {
    let recipe = Recipe::command(vec!["/usr".into()]);
    assert_eq!(failure(&recipe), (SetupStep::Exec, 13, "/usr (it is a directory)".to_owned()));

    let mut recipe = Recipe::command(Vec::new());
    let file = recipe.root().join("agent");
    std::fs::write(&file, "#!/no/such/interpreter\n").expect("written");
    recipe.open.command = vec![file.clone().into_os_string()];
    let named = |errno, flaw| (SetupStep::Exec, errno, format!("{} ({flaw})", file.display()));
    assert_eq!(failure(&recipe), named(13, "it is not executable"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("executable");
    assert_eq!(failure(&recipe), named(2, "its interpreter is missing"));
}

#[test]
fn a_missing_working_directory_is_named() {
    let mut recipe = Recipe::script("say never");
    recipe.open.directory = "/no/such/directory".into();
    assert_eq!(failure(&recipe), (SetupStep::Directory, 2, "/no/such/directory".to_owned()));
}

#[test]
fn an_empty_command_fails_at_exec() {
    assert_eq!(failure(&Recipe::command(Vec::new())).0, SetupStep::Exec);
}

#[test]
fn a_folder_that_exists_is_not_touched() {
    let recipe = Recipe::script("say never");
    std::fs::create_dir(recipe.folder()).expect("made");
    let mut client = recipe.open();
    let failed = client.until("failure", |report| match report {
        Report::OpenFailed { step, errno, .. } => Some((*step, *errno)),
        _ => None,
    });
    assert_eq!(failed, (SetupStep::Folder, 17));
    assert!(recipe.folder().exists());
    client.process.take().expect("spawned").wait().expect("ends");
}
