//! `adopt`: lets a node on a copy of a data folder take the place of the original.

use super::client::Client;
use super::failure::Failure;
use super::output::Output;
use clap::Args;
use serde_json::json;

/// The effects of an adoption.
const BREAKS: &str = "\
The node takes the place of the one from which its data folder was copied. That is for an original that is gone \
for good.
- If the original still runs, it is declared dead, and stands aside once it receives that. What it spends until then \
may be lost, and spent again here.
- If the original is started again, it takes the place, and this node stands aside.
- What the original told nobody since the copy was made is lost.
- The node votes once enough other members know its start, and spends what the original held once all of them do.";

/// The arguments of `tallymesh adopt`.
#[derive(Args, Debug)]
pub struct AdoptArgs {
    /// Do it; without this, what it breaks is printed and nothing is done
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(client: &Client, output: &mut Output, args: AdoptArgs) -> Result<(), Failure> {
    let AdoptArgs { yes } = args;
    if !yes {
        return Err(Failure::Lines {
            problem: format!("{BREAKS}\nNothing was done. Add --yes to do it"),
        });
    }
    let answer = client.as_operator()?.post_json("/v1/adopt", &json!({}));
    let answer = answer.map_err(|failure| {
        failure.if_broken("give the same command again, which changes nothing twice, or look with `tallymesh status`")
    })?;
    output.line(&answer, || match answer["adopted"] == true {
        true => "adopted: this node takes the place of its original".to_owned(),
        false => "this node's data folder is no copy; nothing was changed".to_owned(),
    })
}
