//! `ostler completions` and `ostler man`: what the command line is, in the words of shells and of `man`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};

use super::{Arguments, output_closed};
use crate::error::{Failure, Kind};

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// Writes a page per verb into this folder instead, which must be there
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

pub(super) fn completions(asked: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(asked.shell, &mut Arguments::command(), "ostler", &mut script);
    print(&script)
}

pub(super) fn man(asked: &Man) -> Result<u8, Failure> {
    // There is a page for each verb instead.
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    match &asked.to {
        Some(folder) => write_pages(&command, folder).map(|()| 0),
        None => print(&page(&command)?),
    }
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(output_closed)?;
    Ok(0)
}

/// A page for a command, and one for each below it: `ostler-task-list.1`.
fn write_pages(command: &Command, folder: &Path) -> Result<(), Failure> {
    let path = folder.join(format!("{}.1", name(command)));
    let failed = |error| Failure::new(Kind::InvalidInput, format!("{} cannot be written: {error}", path.display()));
    std::fs::write(&path, page(command)?).map_err(failed)?;
    command.get_subcommands().try_for_each(|below| write_pages(below, folder))
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    // What follows the help are the exit codes, and a page has a section of its own for those.
    let exit_status = command.get_after_help().map(|text| section("EXIT STATUS", &text.to_string()));
    let sections = exit_status.into_iter().chain((name(command) == "ostler").then(files));
    let written = clap_mangen::Man::new(command.clone().after_help(None)).render(&mut text);
    let written = written.and_then(|()| sections.into_iter().try_for_each(|section| section.to_writer(&mut text)));
    // Memory can be written.
    written.map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
    Ok(text)
}

fn section(head: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [head]);
    roff.text([roman(text)]);
    roff
}

/// The files, which the command line does not know of.
fn files() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    for (path, what) in [
        ("/etc/ostler/ostler.toml", "The configuration of the system; so is ostler/ostler.toml in $XDG_CONFIG_DIRS."),
        ("~/.config/ostler/ostler.toml", "The user's configuration, in $XDG_CONFIG_HOME."),
        (".ostler.toml, ostler.toml", "The project's, looked for from the working directory upwards."),
        ("~/.local/state/ostler", "State: the ledger, the sockets, the folders of runtimes; in $XDG_STATE_HOME."),
    ] {
        roff.control("TP", []);
        roff.text([bold(path)]);
        roff.text([roman(what)]);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_first_page_names_every_verb_flag_exit_code_and_file() {
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        let page = String::from_utf8(page(&command).expect("a page")).expect("UTF-8").replace('\\', "");
        let verbs = command.get_subcommands().map(|verb| format!("ostler-{}(1)", verb.get_name()));
        let flags = command.get_arguments().filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
        let more = [".SH FILES", "/etc/ostler/ostler.toml", ".SH \"EXIT STATUS\"", "130 cancelled"].map(str::to_owned);
        assert!(!page.contains(".SH EXTRA"), "{page}");
        for word in verbs.chain(flags).chain(more) {
            assert!(page.contains(&word), "{word}: {page}");
        }
    }
}
