//! `cargo xtask demo`: three joined nodes and the page, built from the sources.

mod check;
mod cluster;

use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::repo::Repo;
use crate::run::{go_on, shown, stopped};
use crate::web;

pub(crate) use check::check;
use cluster::Cluster;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Put load on the nodes and two browser tabs, cut and heal, compare every counter, and end
    #[arg(long)]
    check: bool,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    build(repo)?;
    if args.check {
        return check(repo);
    }
    let mut cluster = Cluster::start(&repo.node_binary())?;
    invite(repo, &cluster);
    while !stopped() {
        cluster.all_alive()?;
        thread::sleep(Duration::from_millis(100));
    }
    println!("\nstopping; nothing is kept");
    Ok(())
}

/// Builds the page and the node that serves it.
pub(crate) fn build(repo: &Repo) -> Result<()> {
    web::build(repo)?;
    go_on()?;
    shown(
        repo.cargo()
            .args(["build", "--release", "--package", "tallymesh-node"]),
    )
}

/// Prints how to use the running nodes.
fn invite(repo: &Repo, cluster: &Cluster) {
    let binary = repo.node_binary();
    let nodes = cluster.nodes();
    println!("\nThree nodes hold one set of counters and gossip over loopback:\n");
    for (number, node) in nodes.iter().enumerate() {
        println!("  node {}   {}", number + 1, node.http());
    }
    println!(
        "\nOpen the page of any of them, in two tabs, and count:\n\n  {}\n",
        nodes[0].http()
    );
    println!("Or count from another terminal:\n");
    println!("  export TALLYMESH_NODE={}", nodes[nodes.len() - 1].http());
    let token = nodes[nodes.len() - 1].token_file();
    println!("  export TALLYMESH_TOKEN_FILE={}", token.display());
    println!("  {} add visits 5", binary.display());
    println!("  {} watch\n", binary.display());
    println!("Ctrl-C ends it.");
}
