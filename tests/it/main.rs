//! The one integration binary. Each folder is a subject, each file a scenario named as a sentence.
#![expect(unreachable_pub, reason = "one binary: everything in it is its own")]
#![expect(clippy::expect_used, reason = "a scenario that cannot go on has failed")]

mod acp;
mod agents;
mod cases;
mod claude;
mod codex;
mod gemini;
mod keeper;
mod kills;
mod ledger;
mod pi;
mod run;
mod support;
mod the_census_finds_what_is_planted;
mod together;
