//! The least that a counter over HTTP can be in the node's libraries, to measure the node beside: one
//! route of axum that adds to a map in memory. It keeps nothing, checks nothing and tells nobody.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// What a node answers with.
#[derive(serde::Serialize)]
struct Counter {
    key: String,
    value: String,
}

type Counters = Arc<Mutex<HashMap<String, i64>>>;

async fn add(
    State(counters): State<Counters>,
    Path((_, key)): Path<(String, String)>,
) -> Json<Counter> {
    let mut counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
    let value = match counters.get_mut(&key) {
        Some(value) => value,
        None => counters.entry(key.clone()).or_default(),
    };
    *value += 1;
    let value = value.to_string();
    Json(Counter { key, value })
}

/// Listens on any port, and writes its address to the file that is named.
fn main() -> std::io::Result<()> {
    let file: Option<PathBuf> = std::env::args_os().nth(1).map(Into::into);
    let file = file.ok_or_else(|| std::io::Error::other("name the file for the address"))?;
    // As the node has it.
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let http = format!("http://{}", listener.local_addr()?);
        // Whoever waits for the file must not read half of it.
        let part = file.with_extension("part");
        std::fs::write(&part, json!({ "http": http }).to_string())?;
        std::fs::rename(&part, &file)?;
        let router = Router::new()
            .route("/v1/spaces/{space}/counters/{key}/add", post(add))
            .with_state(Counters::default());
        axum::serve(listener, router).await
    })
}
