//! A command on a terminal of its own.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// Types each answer once its text is there, and prints what was shown, and the exit code.
const TERMINAL: &str = "
import fcntl, json, os, pty, struct, sys, termios
columns, answers, command = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    os.execv(command[0], command)
shown = b''
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more:
        break
    shown += more
    if answers and answers[0][0].encode() in shown:
        os.write(terminal, answers.pop(0)[1].encode())
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({'shown': shown.decode(errors='replace'), 'code': code}))
";

/// What the machine that runs the tests may say of colours.
const OF_COLOUR: [&str; 4] = ["CI", "CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"];

/// What is typed, each once its text is shown.
pub type Answers<'a> = &'a [(&'a str, &'a str)];

/// Starts a command on a terminal of so many columns, with more in its environment than it has.
pub fn start(command: &Command, columns: u16, answers: Answers<'_>, environment: &[(&str, &str)]) -> Child {
    let mut terminal = Command::new("python3");
    terminal.args(["-c", TERMINAL, &columns.to_string(), &json!(answers).to_string()]);
    terminal.arg(command.get_program()).args(command.get_args());
    terminal.current_dir(command.get_current_dir().expect("a directory")).env("TERM", "xterm").stdout(Stdio::piped());
    OF_COLOUR.iter().for_each(|name| _ = terminal.env_remove(name));
    terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    terminal.envs(environment.iter().copied()).spawn().expect("python3")
}

/// The exit code, and what was shown.
pub fn end(child: Child) -> (i64, String) {
    let output = child.wait_with_output().expect("ends");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (said["code"].as_i64().expect("a code"), said["shown"].as_str().expect("a text").to_owned())
}
