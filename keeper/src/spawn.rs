//! From `fork` to the agent's first instruction, each step by its name.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{ForkResult, Pid, chdir, execve, fork, getpid, getppid, pipe2, setsid};

use crate::leaf::Leaf;
use crate::limits;
use crate::message::{LimitKind, LimitState, Open, SetupStep, WindowSize};
use crate::setup::KEEPER_NAME;
use crate::terminal;
use crate::tree::Stat;
use crate::wait::{self, Waited};

/// The keeper's ends of a forked agent.
#[derive(Debug)]
pub(crate) struct Forked {
    pub(crate) pid: i32,
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    /// None where the agent has a terminal: what it writes there comes by its standard output.
    pub(crate) stderr: Option<File>,
    /// At its end once `exec` succeeded; before that, a [`SetupFailure`].
    pub(crate) progress: File,
    /// What became of the limits, as far as it is known before the agent sets its own.
    pub(crate) limits: Vec<LimitState>,
}

/// The name of a child until `exec` gives it its program's.
const NAME_BEFORE_EXEC: &CStr = c"ostler-setup";

/// A step that failed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetupFailure {
    pub(crate) step: SetupStep,
    pub(crate) errno: Errno,
}

impl SetupFailure {
    pub(crate) fn at(step: SetupStep) -> impl Fn(Errno) -> Self {
        move |errno| Self { step, errno }
    }
}

/// What a child says on its way: a step with its error, and for a limit which one.
struct Word([u8; 8]);

impl Word {
    fn of(failure: SetupFailure, kind: Option<LimitKind>) -> Self {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&(failure.step.number() as u16).to_le_bytes());
        bytes[2..4].copy_from_slice(&(kind.map_or(0, LimitKind::number) as u16).to_le_bytes());
        bytes[4..].copy_from_slice(&(failure.errno as i32).to_le_bytes());
        Self(bytes)
    }

    fn progress(&self) -> Progress {
        let [step, kind] = [0, 2].map(|at| u64::from(u16::from_le_bytes([self.0[at], self.0[at + 1]])));
        let errno = Errno::from_raw(i32::from_le_bytes([self.0[4], self.0[5], self.0[6], self.0[7]]));
        match (SetupStep::from_number(step), LimitKind::from_number(kind)) {
            (Some(SetupStep::Leaf), _) => Progress::WithoutLeaf,
            (Some(SetupStep::Limits), Some(kind)) => Progress::LimitRefused(kind, errno),
            (Some(step), _) => Progress::Failed(SetupFailure { step, errno }),
            (None, _) => Progress::Pending,
        }
    }
}

/// How far a forked child came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Still on its way.
    Pending,
    /// It could not join the leaf and went on without.
    WithoutLeaf,
    /// It could not be held to this limit and went on without.
    LimitRefused(LimitKind, Errno),
    /// `exec` succeeded.
    Executed,
    /// The child died on its way.
    Died,
    /// A step failed; the child ends by itself.
    Failed(SetupFailure),
}

/// Reads one message of the child's progress; the pipe does not block.
pub(crate) fn read_progress(pipe: &mut File, pid: i32) -> Progress {
    let mut bytes = [0; 8];
    match pipe.read(&mut bytes) {
        Ok(0) => closed(pid),
        Ok(8) => Word(bytes).progress(),
        _ => Progress::Pending,
    }
}

/// The pipe closes by `exec` or by death, and a corpse keeps its name. In the instant between the closing and the new
/// name it is asked again.
fn closed(pid: i32) -> Progress {
    let Some(stat) = Stat::read(pid) else { return Progress::Died };
    match (stat.name.as_bytes() == NAME_BEFORE_EXEC.to_bytes(), wait::look(pid)) {
        (true, Waited::Alive) => Progress::Pending,
        (true, _) => Progress::Died,
        (false, _) => Progress::Executed,
    }
}

/// Forks the agent. The child never returns: it becomes the program, or reports the step that failed and ends.
pub(crate) fn spawn(open: &Open, leaf: Option<&Leaf>) -> Result<Forked, SetupFailure> {
    let program = Program::of(open)?;
    let streams = Streams::of(open)?;
    let (progress_read, progress_write) = pipes()?;
    let limits = limits::arrange(&open.limits, leaf);
    let child = Child {
        open,
        stdio: streams.theirs,
        limits: &limits,
        leaf: leaf.and_then(|leaf| leaf.procs().ok()),
        progress: File::from(progress_write),
        program,
        keeper: getpid(),
    };
    // The child has this name from its first instruction on: it may be killed before it has done anything.
    prctl::set_name(NAME_BEFORE_EXEC).map_err(SetupFailure::at(SetupStep::Fork))?;
    // SAFETY: the keeper has one thread, so the child may do whatever its parent could.
    let forked = unsafe { fork() };
    if !matches!(forked, Ok(ForkResult::Child)) {
        prctl::set_name(KEEPER_NAME).map_err(SetupFailure::at(SetupStep::Fork))?;
    }
    match forked.map_err(SetupFailure::at(SetupStep::Fork))? {
        ForkResult::Child => child.run(),
        ForkResult::Parent { child: pid } => Ok(Forked {
            pid: pid.as_raw(),
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
            progress: nonblocking(progress_read)?,
            limits,
        }),
    }
}

fn pipes() -> Result<(OwnedFd, OwnedFd), SetupFailure> {
    pipe2(OFlag::O_CLOEXEC).map_err(SetupFailure::at(SetupStep::Pipes))
}

/// The agent's standard streams, and the keeper's ends of them.
struct Streams {
    theirs: [OwnedFd; 3],
    stdin: File,
    stdout: File,
    stderr: Option<File>,
}

impl Streams {
    fn of(open: &Open) -> Result<Self, SetupFailure> {
        match open.terminal {
            None => Self::pipes(),
            Some(size) => Self::terminal(size),
        }
    }

    fn pipes() -> Result<Self, SetupFailure> {
        let ((stdin, stdin_write), (stdout_read, stdout), (stderr_read, stderr)) = (pipes()?, pipes()?, pipes()?);
        Ok(Self {
            theirs: [stdin, stdout, stderr],
            stdin: nonblocking(stdin_write)?,
            stdout: nonblocking(stdout_read)?,
            stderr: Some(nonblocking(stderr_read)?),
        })
    }

    fn terminal(size: WindowSize) -> Result<Self, SetupFailure> {
        let at = SetupFailure::at(SetupStep::Terminal);
        let pair = terminal::open(size).map_err(&at)?;
        let copy = |end: &OwnedFd| {
            let copied = end.try_clone();
            copied.map_err(|error| at(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))))
        };
        Ok(Self {
            theirs: [copy(&pair.slave)?, copy(&pair.slave)?, pair.slave],
            stdin: nonblocking(copy(&pair.master)?)?,
            stdout: nonblocking(pair.master)?,
            stderr: None,
        })
    }
}

fn nonblocking(fd: OwnedFd) -> Result<File, SetupFailure> {
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(SetupFailure::at(SetupStep::Pipes))?;
    Ok(File::from(fd))
}

/// What `exec` needs, prepared before the fork.
struct Program {
    paths: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// Refuses what `exec` could only get cut: a string with a zero byte in it.
    fn of(open: &Open) -> Result<Self, SetupFailure> {
        let strings = |items: &[OsString]| {
            let strings: Result<_, _> = items.iter().map(|text| CString::new(text.as_bytes())).collect();
            strings.map_err(|_| SetupFailure { step: SetupStep::Exec, errno: Errno::EINVAL })
        };
        let (arguments, environment) = (strings(&open.command)?, strings(&open.environment)?);
        Ok(Self { paths: candidates(open), arguments, environment })
    }

    /// Tries each place; of several failures, one that is not "not found" says most.
    fn exec(&self) -> Errno {
        let mut error = Errno::ENOENT;
        for path in &self.paths {
            let Err(errno) = execve(path, &self.arguments, &self.environment);
            if !matches!(errno, Errno::ENOENT | Errno::ENOTDIR) {
                error = errno;
            }
        }
        error
    }
}

/// The places where the program is looked for: the path given, or each entry of the agent's own `PATH`.
fn candidates(open: &Open) -> Vec<CString> {
    let program = open.command.first().map(|p| p.as_bytes()).unwrap_or_default();
    if program.is_empty() || program.contains(&b'/') {
        return CString::new(program).into_iter().filter(|p| !p.is_empty()).collect();
    }
    let path = open.environment.iter().find_map(|v| v.as_bytes().strip_prefix(b"PATH=")).unwrap_or(b"/usr/bin:/bin");
    path.split(|&byte| byte == b':')
        .filter(|entry| !entry.is_empty())
        .filter_map(|entry| CString::new([entry, b"/", program].concat()).ok())
        .collect()
}

struct Child<'a> {
    open: &'a Open,
    stdio: [OwnedFd; 3],
    limits: &'a [LimitState],
    leaf: Option<File>,
    progress: File,
    program: Program,
    keeper: Pid,
}

impl Child<'_> {
    fn run(mut self) -> ! {
        let Err(failure) = self.become_agent();
        self.tell(failure, None);
        // SAFETY: ends this child at once, without running the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }

    fn tell(&mut self, failure: SetupFailure, kind: Option<LimitKind>) {
        // If the keeper is gone, nobody is left to be told; the child ends either way.
        let _keeper_gone = self.progress.write_all(&Word::of(failure, kind).0);
    }

    fn become_agent(&mut self) -> Result<Infallible, SetupFailure> {
        let at = SetupFailure::at;
        self.die_with_keeper().map_err(at(SetupStep::ParentDeath))?;
        setsid().map_err(at(SetupStep::Session))?;
        self.take_terminal().map_err(at(SetupStep::Terminal))?;
        self.join_leaf();
        self.oom_score().map_err(at(SetupStep::OomScore))?;
        reset_signals().map_err(at(SetupStep::Signals))?;
        umask(Mode::from_bits_truncate(self.open.umask));
        chdir(&self.open.directory).map_err(at(SetupStep::Directory))?;
        self.standard_streams().map_err(at(SetupStep::Stdio))?;
        close_others_at_exec().map_err(at(SetupStep::Descriptors))?;
        // Last, since they bind this process too.
        limits::apply(self.limits, |kind, errno| {
            self.tell(SetupFailure { step: SetupStep::Limits, errno }, Some(kind))
        });
        Err(at(SetupStep::Exec)(self.program.exec()))
    }

    /// Sound here: the signal follows the death of the forking *thread*, and the keeper has one.
    fn die_with_keeper(&self) -> Result<(), Errno> {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() == self.keeper { Ok(()) } else { Err(Errno::ESRCH) }
    }

    fn take_terminal(&self) -> Result<(), Errno> {
        match self.open.terminal {
            None => Ok(()),
            Some(_) => terminal::control(self.stdio[0].as_fd()),
        }
    }

    fn join_leaf(&mut self) {
        let Some(leaf) = &mut self.leaf else { return };
        if let Err(error) = leaf.write_all(b"0") {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
            self.tell(SetupFailure { step: SetupStep::Leaf, errno }, None);
        }
    }

    fn oom_score(&self) -> Result<(), Errno> {
        // The keeper's files in /proc belong to root while it is not dumpable; `exec` resets this anyway.
        prctl::set_dumpable(true)?;
        let path = "/proc/self/oom_score_adj";
        let current = std::fs::read_to_string(path).ok().and_then(|score| score.trim().parse().ok()).unwrap_or(0);
        // Never lowered: that needs a privilege, and a runtime of low priority is meant to be one.
        match std::fs::write(path, self.open.oom_score_adj.max(current).to_string()) {
            Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => {
                Err(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
            }
            _ => Ok(()),
        }
    }

    fn standard_streams(&self) -> Result<(), Errno> {
        for (target, fd) in self.stdio.iter().enumerate() {
            // SAFETY: both are plain descriptor numbers; the source is open, and what the target was is not used
            // again in this process before `exec`.
            Errno::result(unsafe { libc::dup2(fd.as_raw_fd(), target as i32) })?;
        }
        Ok(())
    }
}

pub(crate) fn reset_signals() -> Result<(), Errno> {
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: sets the default disposition; numbers the C library keeps for itself answer with an error that
        // does not matter.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

fn close_others_at_exec() -> Result<(), Errno> {
    // SAFETY: marks descriptors close-on-exec; touches no memory.
    Errno::result(unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) }).map(drop)
}
