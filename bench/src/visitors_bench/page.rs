//! A page of this project: a replica and its end of a link, as the npm package has it.
//!
//! The node takes its link for one that a browser opened. So the page proves its owner's key (docs/http.md),
//! has the role editor, and proves its writers by the protocol.

use super::client::Client;
use super::socket::Message;
use anyhow::{Context, Result, bail};
use ed25519_dalek::{Signer, SigningKey};
use serde_json::Value;
use std::collections::VecDeque;
use tallymesh_core::{
    Input, Link, Millis, Output, Replica, Space, SplitMix64, SyncConfig, SyncMachine, WriterId,
};

/// The counter that all pages add to.
pub(super) const KEY: &str = "visitors";
/// A node signs nothing else that begins so.
const DOMAIN: &[u8] = b"tallymesh-link-1";
/// More than any delay after which the sync machine pushes, in milliseconds.
const PUSHED_BY_MS: Millis = 1_000;

/// The least time between two looks at its duties, in milliseconds: the machine asks for about a second.
const TEND_MS: Millis = 1_000;

/// A replica in a page.
pub(super) struct Page {
    replica: Replica,
    sync: SyncMachine,
    key: SigningKey,
    random: SplitMix64,
    /// Whether its space has members. Then it is online once it has their list.
    is_guest: bool,
    /// How many links it has had: each gets a number of its own.
    links: u32,
    /// Whether the present link is open to the machine.
    is_linked: bool,
    outputs: VecDeque<Message>,
    /// When its duties are due again.
    tend_at: Millis,
    /// The value at the last look, or `None` if it has changed since.
    value: Option<i128>,
}

impl Page {
    /// A fresh page, a guest or one of an open space. Its keys and timers follow from the seed.
    pub(super) fn new(seed: u64, is_guest: bool) -> Page {
        let mut random = SplitMix64::new(seed);
        let mut secret = [0; 32];
        for part in secret.as_chunks_mut().0 {
            *part = random.next_u64().to_le_bytes();
        }
        let key = SigningKey::from_bytes(&secret);
        let owner = key.verifying_key().to_bytes();
        let nonce = nonce(&mut random);
        let space = Space::default();
        let writer = WriterId::mint(&space, &owner, &nonce);
        let mut replica = Replica::new(space, writer);
        let mut sync = SyncMachine::new(SyncConfig::default(), random.next_u64());
        sync.handle(0, &mut replica, Input::Own { writer, nonce });
        Page {
            replica,
            sync,
            key,
            random,
            is_guest,
            links: 0,
            is_linked: false,
            outputs: VecDeque::new(),
            tend_at: 0,
            value: None,
        }
    }

    fn input(&mut self, now: Millis, input: Input<'_>) -> Option<String> {
        self.sync.handle(now, &mut self.replica, input);
        self.take_outputs(now)
    }

    /// Carries out what the machine asks for. Returns why the link has to be closed, if it has to.
    fn take_outputs(&mut self, now: Millis) -> Option<String> {
        let mut closes = None;
        while let Some(output) = self.sync.poll() {
            match output {
                Output::Send { link, bytes } if link == self.link() => {
                    self.outputs.push_back(Message::Frame(bytes.to_vec()));
                }
                Output::Changed { .. } | Output::Returned(_) => self.value = None,
                Output::Renew => self.renew(now),
                Output::Refused {
                    close: Some(link),
                    error,
                } if link == self.link() => closes = Some(error.to_string()),
                _ => {}
            }
        }
        closes
    }

    /// Goes on under a fresh writer of the same owner.
    fn renew(&mut self, now: Millis) {
        let nonce = nonce(&mut self.random);
        let owner = self.key.verifying_key().to_bytes();
        let writer = WriterId::mint(self.replica.space(), &owner, &nonce);
        let own = Input::Own { writer, nonce };
        self.sync.handle(now, &mut self.replica, own);
        let renew = Input::Renew { writer };
        self.sync.handle(now, &mut self.replica, renew);
    }

    fn link(&self) -> Link {
        Link(self.links)
    }

    /// Opens the link to the machine, which says hello.
    pub(super) fn link_up(&mut self, now: Millis) {
        self.links += 1;
        self.is_linked = true;
        let (link, broadcast) = (self.link(), false);
        self.input(now, Input::Connected { link, broadcast });
    }

    /// Signs the challenge of a node.
    fn prove(&self, asked: &str) -> Result<String> {
        let asked: Value = serde_json::from_str(asked)?;
        let part = |name: &str| unhex(asked[name].as_str()).with_context(|| format!("no {name}"));
        let signed = [DOMAIN, &part("challenge")?, &part("node")?].concat();
        let signature = self.key.sign(&signed).to_bytes();
        let owner = self.key.verifying_key().to_bytes();
        Ok(serde_json::json!({ "owner": hex(&owner), "signature": hex(&signature) }).to_string())
    }
}

impl Client for Page {
    fn path(&self) -> String {
        "/v1/spaces/default/sync".into()
    }

    fn opened(&mut self, _now: Millis) {
        // The node's challenge comes first.
        self.outputs.clear();
    }

    fn text(&mut self, now: Millis, text: &str) -> Result<()> {
        let proof = self.prove(text)?;
        self.outputs.push_back(Message::Text(proof));
        self.link_up(now);
        Ok(())
    }

    fn frame(&mut self, now: Millis, bytes: &[u8]) -> Result<()> {
        let link = self.link();
        match self.input(now, Input::Frame { link, bytes }) {
            Some(error) => bail!("{error}"),
            None => Ok(()),
        }
    }

    fn closed(&mut self, now: Millis) {
        self.outputs.clear();
        if std::mem::take(&mut self.is_linked) {
            let link = self.link();
            self.input(now, Input::Disconnected { link });
        }
    }

    fn tick(&mut self, now: Millis) {
        self.input(now, Input::Tick);
        if now < self.tend_at {
            return;
        }
        self.tend_at = now + TEND_MS;
        let kept = self.replica.mark();
        // A page makes no transaction of its own here, and so none that fails.
        let _ = self.sync.tend(now, &mut self.replica, &kept);
        self.take_outputs(now);
    }

    fn deadline(&self) -> Option<Millis> {
        self.sync.next_deadline()
    }

    fn poll(&mut self) -> Option<Message> {
        self.outputs.pop_front()
    }

    fn add(&mut self, now: Millis) -> Result<()> {
        self.replica.add(KEY, 1)?;
        self.value = None;
        self.input(now, Input::Changed);
        Ok(())
    }

    fn leave(&mut self, now: Millis) {
        let members = self.replica.members();
        if members.is_announced() || members.sponsor().is_none() {
            return;
        }
        if self.replica.members_mut().leave().is_ok() {
            self.input(now, Input::Changed);
            self.input(now + PUSHED_BY_MS, Input::Tick);
        }
    }

    fn value(&mut self) -> i128 {
        let value = self.value.or_else(|| self.replica.value(KEY));
        *self.value.insert(value.unwrap_or(0))
    }

    fn is_acknowledged(&self) -> Option<bool> {
        self.replica.members().configuration()?;
        Some(self.replica.consistency().unconfirmed() == 0)
    }

    fn is_online(&self) -> bool {
        let link = self.link();
        let mut links = self.sync.links();
        let has_hello = links.any(|it| it.link == link && it.writer.is_some());
        has_hello && (!self.is_guest || self.replica.members().configuration().is_some())
    }
}

/// A random nonce of a writer.
pub(super) fn nonce(random: &mut SplitMix64) -> [u8; 16] {
    let mut nonce = [0; 16];
    for part in nonce.as_chunks_mut().0 {
        *part = random.next_u64().to_le_bytes();
    }
    nonce
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: Option<&str>) -> Option<Vec<u8>> {
    let text = text.filter(|it| it.len() % 2 == 0 && it.is_ascii())?;
    let byte = |at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok();
    (0..text.len() / 2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_proves_its_key_before_its_hello() {
        let mut page = Page::new(7, true);
        page.opened(0);
        assert!(page.poll().is_none());
        let asked = format!(
            r#"{{"challenge":"{}","node":"{}"}}"#,
            "07".repeat(32),
            "08".repeat(32)
        );
        page.text(0, &asked).expect("a proof");
        assert!(matches!(page.poll(), Some(Message::Text(text)) if text.contains("signature")));
        assert!(matches!(page.poll(), Some(Message::Frame(_))));
        assert!(page.text(0, "{}").is_err());
    }
}
