//! A local model server that obeys rules from a file.
//!
//! ```text
//! ostler-model --rules FILE [--record FILE] [--address 127.0.0.1:0]
//! ```
//!
//! It prints the address it listens on, and appends each request, and each hang-up of a client, to the record as one
//! JSON line: so a test sees what reached the model. The rules' form is documented in [`rules`]. It speaks
//!
//! - OpenAI Responses, streaming, at `POST /v1/responses`;
//! - OpenAI Chat Completions, streaming and whole, at `POST /v1/chat/completions`;
//! - Anthropic Messages, streaming, at `POST /v1/messages`;
//! - Gemini at `POST /v1beta/models/MODEL:streamGenerateContent` and `:generateContent`.

mod chat;
mod dialect;
mod gemini;
mod messages;
mod record;
mod responses;
mod rules;
mod sse;
#[cfg(test)]
mod tests;
mod tools;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use actix_web::dev::Server;
use actix_web::{App, HttpServer, web};

use chat::Chat;
use dialect::respond;
use messages::Messages;
use record::Record;
use responses::Responses;
use rules::Rules;

struct Options {
    rules: PathBuf,
    record: Option<PathBuf>,
    address: String,
}

fn options() -> Result<Options, String> {
    let mut options = Options { rules: PathBuf::new(), record: None, address: "127.0.0.1:0".to_owned() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--rules" => options.rules = value.into(),
            "--record" => options.record = Some(value.into()),
            "--address" => options.address = value,
            _ => return Err(format!("{name} is not known")),
        }
    }
    if options.rules.as_os_str().is_empty() {
        return Err("--rules is missing".to_owned());
    }
    Ok(options)
}

#[actix_web::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ostler-model: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve() -> Result<(), String> {
    let options = options()?;
    let rules = Rules::read(&options.rules)?;
    let record = Record::open(options.record.as_deref()).map_err(|error| error.to_string())?;
    let (addresses, server) = listen(rules, record, &options.address)?;
    for address in addresses {
        println!("{address}");
    }
    server.await.map_err(|error| error.to_string())
}

/// A server, and where it listens; it serves while it is awaited.
fn listen(rules: Rules, record: Record, address: &str) -> Result<(Vec<SocketAddr>, Server), String> {
    let (rules, record) = (web::Data::new(rules), web::Data::new(record));
    let server = HttpServer::new(move || App::new().app_data(rules.clone()).app_data(record.clone()).configure(routes));
    let server = server.workers(1).bind(address).map_err(|error| format!("{address}: {error}"))?;
    Ok((server.addrs(), server.run()))
}

fn routes(app: &mut web::ServiceConfig) {
    app.app_data(web::PayloadConfig::new(256 << 20))
        .route("/v1/responses", web::post().to(respond::<Responses>))
        .route("/v1/chat/completions", web::post().to(respond::<Chat>))
        .route("/v1beta/models/{call}", web::post().to(gemini::generate))
        .route("/v1/messages", web::post().to(respond::<Messages>))
        .route("/v1/models", web::get().to(models));
}

async fn models() -> web::Json<serde_json::Value> {
    web::Json(serde_json::json!({ "object": "list", "data": [{ "id": "scripted", "object": "model" }] }))
}
