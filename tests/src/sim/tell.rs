//! Describes the state of a mesh, for a developer who looks for the cause of a failure.

use super::{Mesh, Scenario};
use std::fmt::Write;
use tallymesh_core::WriterId;

fn short(writer: &WriterId) -> String {
    writer.to_string()[..4].to_owned()
}

impl<S: Scenario> Mesh<S> {
    /// A line for each replica.
    pub fn tell(&self) -> String {
        let mut text = String::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let replica = &node.replica;
            let held = replica.vector();
            let held = held.iter().map(|it| format!("{}@{}", short(&it.0), it.1));
            let held: Vec<String> = held.collect();
            let members = replica.members().configuration();
            let number = members.map(|it| (it.era, it.number));
            let named = members.map(|it| it.members.iter().map(|it| it[0]).collect::<Vec<u8>>());
            let _ = write!(
                text,
                "\n    {at} is {}, runs {}, alone {}, member {}, announced {}, established {}, of \
                 {number:?} {named:?}: {held:?}",
                short(&replica.writer()),
                node.alive,
                self.is_alone(at),
                replica.members().is_member(),
                replica.members().is_announced(),
                replica.members().is_established(),
            );
            for link in node.sync.links() {
                let pulls = if link.pulling { ", pulls" } else { "" };
                let has_hello = link.agent.is_some();
                let _ = write!(text, "; link {} hello {has_hello}{pulls}", link.link.0);
            }
        }
        text
    }
}
