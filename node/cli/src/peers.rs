//! `tallymesh peers`: the links of a node.

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use serde_json::{Value, json};
use tallymesh_node_ground::escape;

pub(super) fn run(client: &Client, output: &mut Output) -> Result<(), Failure> {
    let answer = client.get("/v1/peers")?;
    let peers: Vec<&Value> = answer["peers"].as_array().into_iter().flatten().collect();
    let unreached = answer["unreached"].as_array().into_iter().flatten();
    let unreached: Vec<&Value> = unreached.collect();
    if peers.is_empty() && unreached.is_empty() && !output.is_json() {
        let text = "no peers; connect to one with `tallymesh up --peer MULTIADDR`";
        return output.line(&Value::Null, || text.into());
    }
    for peer in peers {
        output.line(peer, || row(peer))?;
    }
    for peer in unreached {
        output.line(&json!({ "unreached": peer }), || away(peer))?;
    }
    Ok(())
}

/// A configured peer that is not linked.
fn away(peer: &Value) -> String {
    format!(
        "{} not reached for {:.0} s ({}): {}",
        text(&peer["address"]),
        peer["for_ms"].as_f64().unwrap_or_default() / 1000.0,
        text(&peer["code"]),
        text(&peer["detail"]),
    )
}

fn row(peer: &Value) -> String {
    let heard = match peer["last_heard_ms"].as_u64() {
        Some(millis) => format!("heard {:.1} s ago", millis as f64 / 1000.0),
        None => "not heard yet".into(),
    };
    format!(
        "{} ({}) in {}: {}, {heard}, {} B in, {} B out",
        text(&peer["peer"]),
        text(&peer["kind"]),
        text(&peer["space"]),
        text(&peer["state"]),
        text(&peer["bytes_in"]),
        text(&peer["bytes_out"]),
    ) + &about(&peer["node"]["about"])
}

/// The facts that a peer has sent about itself. The text is empty if there are none, or if the peer
/// is no node.
fn about(about: &Value) -> String {
    let Some(version) = about["version"].as_str() else {
        return String::new();
    };
    format!(
        ", version {}, clock {:+} ms ± {}, round trip {:.1} ms",
        escape::value(version),
        about["clock_offset_ms"].as_i64().unwrap_or_default(),
        text(&about["clock_error_ms"]),
        about["rtt_us"].as_f64().unwrap_or_default() / 1000.0,
    )
}
