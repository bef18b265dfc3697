//! What is not read is bounded.

use std::io::Read;
use std::time::{Duration, Instant};

use ostler_keeper::{Order, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, resident_kib};

fn shell(text: &str) -> Recipe {
    Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()])
}

#[test]
fn an_owner_that_reads_slowly() {
    for (size, pause) in [(40_000, 300), (1_000, 0), (5_000, 20), (300_000, 2_000)] {
        let recipe = shell("yes 0123456789012345678901234567890123456789 >&2 & yes; wait");
        let mut client = recipe.open();
        client.opened();
        let pid = client.process.as_ref().expect("spawned").id() as i32;
        let _sweep = Sweep(pid, recipe.marker.clone());
        let until = Instant::now() + Duration::from_secs(2);
        let mut piece = vec![0; size];
        let (mut total, mut worst) = (0, 0);
        while Instant::now() < until {
            total += client.stream.read(&mut piece).expect("bytes");
            worst = worst.max(resident_kib(pid));
            std::thread::sleep(Duration::from_micros(pause));
        }
        eprintln!("{size} per {pause} us: {total} bytes read, {worst} KiB at most");
        // The unacknowledged 65 MiB of stdout, and little else.
        assert!(worst < 80 << 10, "{worst} KiB after {total} bytes");
    }
}

#[test]
fn a_pipe_filled_from_outside_after_the_tree_is_empty() {
    let fifo_folder = tempfile::tempdir().expect("a folder");
    let socket = fifo_folder.path().join("s");
    let python = format!(
        "import socket,array\ns=socket.socket(socket.AF_UNIX)\ns.connect('{}')\n\
         s.sendmsg([b'x'],[(socket.SOL_SOCKET,socket.SCM_RIGHTS,array.array('i',[1,2]))])\ns.recv(1)\n",
        socket.display()
    );
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let mut recipe = Recipe::command(vec!["python3".into(), "-c".into(), python.into()]);
    recipe.open.stdout_retention = 1 << 20;
    recipe.open.stderr_retention = 1 << 16;
    let outside = "import socket,array,os\nimport sys\nc=socket.socket(fileno=0)\nm,a,_,_=c.recvmsg(1,1000)\n\
        f=array.array('i');f.frombytes(a[0][2][:8])\nb=b'y'*65536\nimport time\nc.send(b'g')\nc.close()\nend=time.time()+3\n\
        try:\n  while time.time()<end: os.write(f[0],b)\nexcept BrokenPipeError: pass\n";
    let mut client = recipe.open();
    client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    let (stream, _) = listener.accept().expect("the agent connects");
    let mut helper = std::process::Command::new("python3")
        .args(["-c", outside])
        .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(stream)))
        .spawn()
        .expect("starts");
    let until = Instant::now() + Duration::from_secs(4);
    let mut worst = 0;
    while Instant::now() < until && helper.try_wait().expect("asked").is_none() {
        worst = worst.max(resident_kib(pid));
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ended = helper.wait();
    eprintln!("{worst} KiB at most");
    client.emptied();
    client.ended(ostler_keeper::Stream::Stdout);
    eprintln!("{} bytes", client.stdout.len());
    assert!(worst < 12 << 10, "{worst} KiB with a retention of 1 MiB");
    client.release();
}

#[test]
fn an_owner_that_asks_and_never_reads() {
    let recipe = shell("sleep 1000");
    let mut client = recipe.open();
    client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    client.stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    use std::io::Write;
    let asks = Order::Status.encode().repeat(1000);
    for _ in 0..200 {
        if client.stream.write_all(&asks).is_err() {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let resident = resident_kib(pid);
    assert!(resident < 12 << 10, "{resident} KiB of answers");
}

#[test]
fn a_backlog_that_was_large_once_is_given_back() {
    let recipe = shell("head -c 50000000 /dev/zero; sleep 0.5; echo; sleep 1000");
    let mut client = Client::spare();
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    std::thread::sleep(Duration::from_millis(1500));
    client.read_from(0);
    let mut got = 0;
    while got < 50_000_000 {
        if let Some(Report::Output { bytes, .. }) = client.next() {
            got += bytes.len();
        }
    }
    // The owner holds back the last 1000 bytes, the beginning of a frame that is not whole.
    client.send(&Order::Ack { stream: ostler_keeper::Stream::Stdout, offset: 49_999_000 });
    std::thread::sleep(Duration::from_millis(300));
    let resident = resident_kib(pid);
    assert!(resident < 12 << 10, "{resident} KiB for 1000 bytes");
    client.close(quick());
}
