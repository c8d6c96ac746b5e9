//! `tallymesh init`: makes a mesh whose first member is the node of a data folder.

use super::data::Data;
use super::failure::Failure;
use super::output::Output;
use super::whole_node::WholeNode;
use clap::Args;
use serde_json::json;
use std::path::Path;
use tallymesh_node_config::UpArgs;
use tallymesh_node_ground::escape;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::Refusal;

/// The arguments of `tallymesh init`.
#[derive(Args, Debug)]
pub struct InitArgs {
    /// The spaces to begin [default: default]
    #[arg(long, value_name = "NAME", env = "TALLYMESH_SPACES", num_args = 1.., value_delimiter = ',')]
    space: Vec<String>,

    #[command(flatten)]
    data: Data,
}

impl InitArgs {
    pub(super) fn output(&self) -> Output {
        self.data.output()
    }
}

/// A text as one word of a POSIX shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Runs a node on the folder, which no other program can reach, for as long as needed.
pub(super) fn run(output: &mut Output, args: InitArgs, whole: &WholeNode) -> Result<(), Failure> {
    let named = args.data.named().map(Path::to_path_buf);
    let settings = UpArgs {
        data: Some(args.data.folder()?),
        http: Some("127.0.0.1:0".to_owned()),
        listen: Some(Vec::new()),
        space: Some(args.space),
        ..UpArgs::default()
    };
    let config = settings.config().map_err(|errors| Failure::Lines {
        problem: errors.to_string(),
    })?;
    let data = config.data.clone();
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::Local {
        code: "runtime",
        problem: format!("can't start the runtime: {error}"),
    })?;
    let (owner, spaces) = runtime.block_on(async {
        let node = (whole.start)(config).await?;
        let handle = node.handle;
        let mut spaces = Vec::new();
        let mut owner: Option<OwnerKey> = None;
        for space in handle.spaces() {
            let refused = |refusal: Refusal| Failure::Local {
                code: refusal.code(),
                problem: format!("space `{space}`: {refusal}"),
            };
            let place = handle.space(space.as_str()).map_err(refused)?;
            let founded = handle.found(place).await.map_err(refused)?;
            owner = Some(founded.owner);
            spaces.push(space.to_string());
        }
        // It stops at once, in order.
        (node.run)(Box::pin(async {})).await?;
        Ok::<_, Failure>((owner, spaces))
    })?;
    let made = json!({ "data": data.display().to_string(), "owner": owner, "spaces": spaces });
    output.line(&made, || {
        let mut lines = vec![format!(
            "data     {}",
            escape::value(&data.display().to_string())
        )];
        lines.extend(owner.map(|owner| format!("owner    {owner}")));
        lines.push(format!("spaces   {}", spaces.join(", ")));
        lines.join("\n")
    })?;
    if output.is_json() {
        return Ok(());
    }
    let named = named.map_or_else(String::new, |data| {
        format!(" --data {}", shell_word(&data.display().to_string()))
    });
    output.remark(&format!(
        "This node is the first member. Next: `tallymesh up{named} --listen /ip4/ADDRESS/tcp/4001` where \
         others reach it, `tallymesh invite{named} --role member` for each node that is to be one, and \
         `tallymesh up --join TICKET` there."
    ))
}
