//! The keeper: the small program that stands between Ostler and one agent's process tree.
//!
//! One keeper owns one runtime. It is a single-threaded program without an async runtime that does almost
//! nothing, so that it cannot fail: it starts the agent, relays its bytes, ends its tree when told (or when its
//! owner is gone for too long), and says what the kernel said about the end.
//!
//! # Theory of operation
//!
//! The owner (an Ostler process) starts the keeper by a plain spawn, with one end of a Unix socket pair as file
//! descriptor 0; orders never travel in arguments or in the environment. The keeper leaves its owner's session,
//! ignores INT, HUP, TERM and PIPE, becomes a child subreaper and waits. A keeper that was started but has no
//! order yet is a *spare*: it owns nothing and ends when its owner ends.
//!
//! [`Order::Open`] makes it the owner of a tree. Before any process of the agent exists, the keeper has made its
//! folder (see [`folder`]) with an identity file and a listening socket in it. That folder tree is the registry of
//! all process trees on a machine.
//!
//! From then on the keeper holds:
//!
//! - **the tree**, by descent (it is a subreaper, so whatever session or group a descendant makes, it re-parents
//!   here) and by a control group leaf where one can really be made. Emptiness is proven by the kernel's own
//!   answer: `ECHILD` from `waitpid(-1, __WALL)`, and `populated 0` of the leaf. The leader is reaped last, so that
//!   no id below it is ever recycled while it is still in use.
//! - **the bytes**: output stays with the keeper until it is acknowledged, by offset ([`relay`]); input is taken as
//!   whole numbered messages, each exactly once ([`inbox`]).
//! - **the ladder** ([`ladder`]): end of input, hanging up, SIGTERM to the tree, SIGKILL to the tree, as far as the order
//!   names them, each with its deadline; one that tells the agent nothing is not waited for, such as an end of input that
//!   was there before.
//!
//! When the owner's connection is lost, the keeper goes on. A later owner connects to the socket in the folder and
//! shows the runtime's secret. If none comes within the grace of the order, the keeper climbs the ladder by
//! itself, writes its last word and the unread output into its folder, and exits.
//!
//! # Protocol, version 1
//!
//! Both directions carry frames:
//!
//! ```text
//! frame := length:u32  kind:u16  field*        length counts everything after itself
//! field := tag:u16  length:u32  bytes
//! ```
//!
//! All integers are little-endian. Numbers in fields are `u64` (8 bytes); text and paths are raw bytes; a list is a
//! repeated field; a record is a field whose bytes are fields. An unknown tag is skipped. An unknown kind of order
//! is answered with [`Report::Refused`] and [`RefusalCode::Unsupported`]; an unknown kind of report is skipped by
//! the owner. So either side may be the older one. A frame is at most [`wire::MAX_FRAME`] bytes; a longer one, or a
//! malformed one, ends the connection (not the keeper).
//!
//! | order | kind | effect | answer |
//! |---|---|---|---|
//! | `Hello` | 1 | first frame on descriptor 0: the versions the owner speaks | `Welcome`, or `Refused` |
//! | `Attach` | 2 | first frame on a connection to the socket: versions and secret | `Welcome`, `State` |
//! | `Open` | 3 | registers, then starts the agent; once per keeper | `Opened` or `OpenFailed` |
//! | `Read` | 4 | sends a stream's output from this offset on; before it, none is sent | `Output`*, `OutputEnd` |
//! | `Ack` | 5 | output before this offset may be forgotten | - |
//! | `Input` | 6 | one whole numbered message for the agent's stdin | `InputState` |
//! | `CloseInput` | 7 | end of input after everything accepted was written | `InputState` |
//! | `Stop` | 8 | climbs the ladder given; joins one that is climbing | `Rung`*, `Emptied` or `Leaked` |
//! | `End` | 9 | ends one process of the tree, its descendants and its session | `Ended` |
//! | `List` | 10 | every process of the tree | `Listing` |
//! | `Release` | 11 | forget the runtime and exit; only of an empty tree | end of connection |
//! | `Status` | 12 | everything the keeper knows | `State` |
//! | `Open` | 32 | the same with a terminal instead of pipes | `Opened` or `OpenFailed` |
//! | `Resize` | 33 | gives the terminal another size | - |
//! | `HangUp` | 36 | closes the terminal, after what is in it was read | `InputState`, `OutputEnd` |
//! | reserved | 32-47 | of these, resource limits (34) and restrictions (35) have a name | `Refused` |
//!
//! `Input` carries numbers from 1 without gaps. A number already accepted is ignored (and answered with the state),
//! a gap is refused, and so is a message that does not fit beside those not yet written. A frame cut short by the
//! owner's death never counts as accepted. `Stop`, `CloseInput`, `Ack`, `Read`, `Attach` and `Status` may be repeated freely.
//!
//! # Limits
//!
//! `Open` may ask for limits: of each process (resource limits, never above what was allowed before), and of the whole tree
//! (`memory.max`, `memory.swap.max`, `pids.max` of the leaf). They are set before the agent exists. It starts whether they
//! hold or not, and `Opened` and the state say of each whether it is in force, and if not, why; a keeper that says nothing
//! of one is older and put none in force. How many processes the kernel killed for lack of memory is told with the proof of
//! emptiness, where it is counted.
//!
//! # With a terminal
//!
//! The agent gets a pseudo-terminal as its standard streams, and as the controlling terminal of its session. Whatever it
//! writes is the one stream `stdout`, byte for byte as the terminal made it; `stderr` is at its end from the start. Input is
//! typed: the terminal echoes, edits and interrupts by its own settings, and in line mode it keeps at most 4,095 bytes of
//! a line. The state tells the window's size, as the kernel has it.
//!
//! The end of input is typed as the terminal's own character, where it is in line mode, and as often as it takes for the
//! reader to see an end: in the middle of a line the first one only hands the line over. Where no character means the end
//! (most full-screen programs) nothing is typed, and the agent is told only by hanging up: its leader and its foreground group
//! get SIGHUP, and what is written afterwards is lost.
//!
//! A terminal that nobody has open is not at its end while the tree lives, since whoever belongs to the session may open it
//! again. It is at its end, and gone, with the tree.
//!
//! An older keeper refuses an `Open` of kind 32 and starts nothing. A later one sends what an older owner does not know
//! only to an owner who asked for a terminal; of the state, he skips the window's size.
//!
//! The fixtures in `keeper/tests/fixtures` freeze the bytes of every frame of version 1: those of its first
//! build, and those added since.
//!
//! # Exit
//!
//! The keeper exits 0 when it was released, when its last word is written, or when its owner left before an
//! `Open`; 1 when descriptor 0 is not a socket; 2 when the start was refused or failed and that was reported.

pub mod clock;
pub mod folder;
pub mod helper;
pub mod inbox;
mod keeper;
pub mod ladder;
mod leaf;
mod limits;
pub mod message;
mod owner;
pub mod relay;
mod setup;
mod spawn;
mod terminal;
pub mod tree;
mod wait;
pub mod wire;

pub use keeper::main;
pub use leaf::{LeafError, remove_leaf, usable_leaf_parent};
pub use limits::offered_limits;
pub use message::*;

/// The protocol version this crate speaks.
pub const VERSION: u64 = 1;
