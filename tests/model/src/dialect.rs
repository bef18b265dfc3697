//! What all dialects have in common: a request, the rule that answers it, and an answer piece by piece.

use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::web::{Bytes, Data};
use serde_json::{Value, json};

use crate::record::Record;
use crate::rules::{Answer, Asked, Failure, Rule, Rules};
use crate::sse::{Broken, Events};

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// One way to speak with a model.
pub(crate) trait Dialect: 'static {
    /// What bears on the choice of a rule.
    fn asked(request: &Value) -> Asked;

    /// The body of a failure.
    fn failure(failure: &Failure) -> Value;

    /// Whether the answer comes in pieces.
    fn streams(_request: &Value) -> bool {
        true
    }

    /// Says the whole answer.
    async fn say(turn: &Turn) -> Result<(), Broken>;
}

/// One answer that is being said.
pub(crate) struct Turn {
    pub(crate) events: Events,
    /// Makes ids different.
    pub(crate) number: u64,
    pub(crate) request: Value,
    pub(crate) rule: Rule,
}

/// Answers a request that has no part but its body.
pub(crate) async fn respond<D: Dialect>(body: Bytes, rules: Data<Rules>, record: Data<Record>) -> HttpResponse {
    match serde_json::from_slice(&body) {
        Ok(request) => converse::<D>(request, &rules, record),
        Err(_) => fail::<D>(&Failure::of(StatusCode::BAD_REQUEST, "not JSON")),
    }
}

/// Answers a request by the rules.
pub(crate) fn converse<D: Dialect>(request: Value, rules: &Rules, record: Data<Record>) -> HttpResponse {
    let asked = D::asked(&request);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    record.note(&json!({ "number": number, "last_user": asked.last_user, "users": asked.users, "request": request }));
    let rule = match rules.answer(&asked) {
        Answer::Speak(rule) => rule,
        Answer::Fail(failure) => return fail::<D>(&failure),
    };
    let content_type = if D::streams(&request) { "text/event-stream" } else { "application/json" };
    let (events, response) = Events::open(content_type);
    actix_web::rt::spawn(async move {
        match D::say(&Turn { events, number, request, rule: *rule }).await {
            Ok(()) => {}
            Err(Broken::HungUp) => record.note(&json!({ "number": number, "hung_up": true })),
            Err(Broken::Cut) => record.note(&json!({ "number": number, "cut": true })),
        }
    });
    response
}

/// A failure in the dialect's form.
pub(crate) fn fail<D: Dialect>(failure: &Failure) -> HttpResponse {
    let mut response = HttpResponse::build(failure.status);
    if let Some(seconds) = failure.retry_after {
        response.insert_header((RETRY_AFTER, seconds));
    }
    response.json(D::failure(failure))
}
