//! A harness with a protocol: the scripted end of Codex's app-server, whose turns do what their prompts say.

use crate::support::shell::Shell;

/// Steps are separated by `;;`: `accept`, `say TEXT`, `line TEXT`, `hex DIGITS`, `sleep S`, `until FILE`, `finish`,
/// `refuse WHY`, `exit CODE`, `hang`; `ask METHOD` (a request of its own, which it does not wait for) and `await` (takes
/// one answer; the answers it gets are in the file `answers` in its directory); `request COMMAND` (asks to run it),
/// `hear` (the answer to that, which is added to the file `heard`), `resolved`, `deaf` (it closes its input).
/// With a file `lost` in its directory, it has no thread to resume. With a file `die-at` in its directory, it ends before or after it does what a message asks (`before thread/start`).
const PROGRAM: &str = r#"
import json, os, signal, sys, time

def send(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()

def answered(answer):
    with open("answers", "a") as answers:
        answers.write(json.dumps(answer) + "\n")
    send(method="serverRequest/resolved", params={"requestId": answer["id"]})

def turn(asked):
    prompt = asked["params"]["input"][0]["text"]
    with open(os.environ["OSTLER_AGENT_LOG"], "a") as log:
        log.write(f"{os.getpid()} {prompt}\n")
    own = f"turn-{os.getpid()}-{asked['id']}"
    for step in prompt.split(";;"):
        word, _, rest = step.strip().partition(" ")
        if word == "accept":
            send(id=asked["id"], result={"turn": {"id": own}})
        elif word == "say":
            send(method="item/agentMessage/delta", params={"turnId": own, "itemId": "answer", "delta": rest})
        elif word == "line":
            sys.stdout.write(rest + "\n")
            sys.stdout.flush()
        elif word == "hex":
            sys.stdout.buffer.write(bytes.fromhex(rest))
            sys.stdout.flush()
        elif word == "ask":
            params = {"turnId": own, "itemId": "item", "command": "rm x"}
            send(id=f"q{asked['id']}", method=rest, params=params)
        elif word == "await":
            answered(json.loads(sys.stdin.readline()))
        elif word == "sleep":
            time.sleep(float(rest))
        elif word == "until":
            while not os.path.exists(rest):
                time.sleep(0.01)
        elif word == "request":
            send(id=900, method="item/commandExecution/requestApproval", params={"turnId": own, "command": rest})
        elif word == "hear":
            while (said := json.loads(sys.stdin.readline())).get("id") != 900:
                pass
            with open("heard", "a") as heard:
                heard.write(said["result"]["decision"] + "\n")
        elif word == "resolved":
            send(method="serverRequest/resolved", params={"requestId": 900})
        elif word == "deaf":
            os.close(0)
        elif word == "finish":
            send(method="turn/completed", params={"turn": {"id": own, "status": "completed"}})
        elif word == "refuse":
            send(id=asked["id"], error={"code": -32600, "message": rest})
        elif word == "exit":
            os._exit(int(rest))
        elif word == "hang":
            time.sleep(1000)

def may_die(when):
    if os.path.exists("die-at") and open("die-at").read() == when:
        os._exit(7)

# What has much memory takes a while to die.
ballast = b"x" * (int(os.environ.get("BALLAST_MIB", "0")) << 20)
if os.environ.get("DEAF"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    may_die(f"before {method}")
    if method == "initialize":
        send(id=asked["id"], result={})
    elif method == "thread/resume" and os.path.exists("lost"):
        send(id=asked["id"], error={"code": -32600, "message": "no rollout found for thread id thread-1"})
    elif method in ("thread/start", "thread/resume"):
        time.sleep(float(os.environ.get("OPEN_AFTER", "0")))
        send(id=asked["id"], result={"thread": {"id": "thread-1"}})
    elif method == "turn/start":
        turn(asked)
    elif method is None:
        answered(asked)
    elif "id" in asked:
        send(id=asked["id"], result={})
    may_die(f"after {method}")
"#;

/// Adds it as the harness `protocol`, with more in its environment.
pub(super) fn add(shell: &Shell, environment: &[(&str, &str)]) {
    let program = shell.path().join("app_server.py");
    std::fs::write(&program, PROGRAM).expect("written");
    let log = shell.log.display().to_string();
    let mark = [("MARK", shell.marker.text()), ("OSTLER_AGENT_LOG", &log)];
    let variables = mark.iter().chain(environment).map(|(name, value)| format!("{name} = {value:?}"));
    let harness = format!(
        "[harness.protocol]\nadapter = \"codex\"\ncommand = [\"python3\", {program:?}]\nenvironment = {{ {} }}\n\
         [harness.protocol.deadlines]\ninterrupt = \"300ms\"\nend_of_input = \"50ms\"\nterminate = \"200ms\"\n\
         stray = \"100ms\"\nready = \"5s\"\n",
        variables.collect::<Vec<_>>().join(", "),
    );
    super::configure(shell, |config| config + &harness);
}
