//! Pages of others: of Yjs at the server of y-websocket, and of the broadcast server.

use super::client::Client;
use super::socket::Message;
use anyhow::{Context, Result};
use std::collections::{HashMap, VecDeque};
use tallymesh_core::Millis;
use yrs::updates::decoder::Decode as _;
use yrs::updates::encoder::Encode as _;
use yrs::{Any, Doc, Map as _, MapRef, Out, ReadTxn as _, StateVector, Transact as _, Update};

/// Kinds of messages of y-protocols: sync, and its three steps.
const SYNC: u8 = 0;
const STATE: u8 = 0;
const ANSWER: u8 = 1;
const UPDATE: u8 = 2;

/// A document of Yjs: one map in which each page sets its own total, as Yjs has no counter.
pub(super) struct YjsPage {
    doc: Doc,
    map: MapRef,
    key: String,
    total: i64,
    outputs: VecDeque<Message>,
    /// The sum at the last look, or `None` if it has changed since.
    sum: Option<i128>,
    is_answered: bool,
}

impl YjsPage {
    pub(super) fn new(number: u64) -> YjsPage {
        let doc = Doc::with_client_id(number + 1);
        let map = doc.get_or_insert_map("counters");
        YjsPage {
            doc,
            map,
            key: number.to_string(),
            total: 0,
            outputs: VecDeque::new(),
            sum: None,
            is_answered: false,
        }
    }

    fn send(&mut self, step: u8, bytes: &[u8]) {
        let mut message = vec![SYNC, step];
        let mut length = bytes.len();
        while length >= 0x80 {
            message.push(length as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend_from_slice(bytes);
        self.outputs.push_back(Message::Frame(message));
    }
}

impl Client for YjsPage {
    fn path(&self) -> String {
        "/visitors".into()
    }

    fn opened(&mut self, _now: Millis) {
        let held = self.doc.transact().state_vector().encode_v1();
        self.send(STATE, &held);
    }

    fn text(&mut self, _now: Millis, _text: &str) -> Result<()> {
        Ok(())
    }

    fn frame(&mut self, _now: Millis, bytes: &[u8]) -> Result<()> {
        // All else is about who is there.
        let &[SYNC, step, ref rest @ ..] = bytes else {
            return Ok(());
        };
        let head = rest.iter().position(|byte| byte & 0x80 == 0);
        let content = &rest[head.context("half a message")? + 1..];
        if step == STATE {
            let held = StateVector::decode_v1(content)?;
            let lacks = self.doc.transact().encode_state_as_update_v1(&held);
            self.send(ANSWER, &lacks);
            return Ok(());
        }
        self.is_answered |= step == ANSWER;
        let update = Update::decode_v1(content)?;
        self.doc.transact_mut().apply_update(update)?;
        self.sum = None;
        Ok(())
    }

    fn closed(&mut self, _now: Millis) {
        self.outputs.clear();
        self.is_answered = false;
    }

    fn tick(&mut self, _now: Millis) {}

    fn deadline(&self) -> Option<Millis> {
        None
    }

    fn poll(&mut self) -> Option<Message> {
        self.outputs.pop_front()
    }

    fn add(&mut self, _now: Millis) -> Result<()> {
        self.total += 1;
        let update = {
            let mut txn = self.doc.transact_mut();
            let total = Any::Number(yrs::Number::Int(self.total));
            self.map.insert(&mut txn, self.key.as_str(), total);
            txn.encode_update_v1()
        };
        self.sum = None;
        self.send(UPDATE, &update);
        Ok(())
    }

    fn leave(&mut self, _now: Millis) {}

    fn value(&mut self) -> i128 {
        if let Some(sum) = self.sum {
            return sum;
        }
        let txn = self.doc.transact();
        let of = |value: Out| match value {
            Out::Any(Any::Number(yrs::Number::Int(total))) => i128::from(total),
            Out::Any(Any::Number(yrs::Number::Float(total))) => total as i128,
            _ => 0,
        };
        *self
            .sum
            .insert(self.map.iter(&txn).map(|(_, value)| of(value)).sum())
    }

    fn is_acknowledged(&self) -> Option<bool> {
        None
    }

    fn is_online(&self) -> bool {
        self.is_answered
    }
}

/// A page of the broadcast server: it sends its number and its total, 8 bytes, and sums up what it hears.
pub(super) struct FloorPage {
    number: u32,
    totals: HashMap<u32, u32>,
    sum: i128,
    outputs: VecDeque<Message>,
    is_up: bool,
}

impl FloorPage {
    pub(super) fn new(number: u64) -> FloorPage {
        FloorPage {
            number: number as u32,
            totals: HashMap::new(),
            sum: 0,
            outputs: VecDeque::new(),
            is_up: false,
        }
    }

    fn set(&mut self, number: u32, total: u32) {
        let before = self.totals.insert(number, total);
        self.sum += i128::from(total) - i128::from(before.unwrap_or(0));
    }
}

impl Client for FloorPage {
    fn path(&self) -> String {
        "/v1/spaces/default/sync".into()
    }

    fn opened(&mut self, _now: Millis) {
        self.is_up = true;
    }

    fn text(&mut self, _now: Millis, _text: &str) -> Result<()> {
        Ok(())
    }

    fn frame(&mut self, _now: Millis, bytes: &[u8]) -> Result<()> {
        let (number, total) = bytes.split_first_chunk().context("half a message")?;
        let total = total.first_chunk().context("half a message")?;
        self.set(u32::from_le_bytes(*number), u32::from_le_bytes(*total));
        Ok(())
    }

    fn closed(&mut self, _now: Millis) {
        self.outputs.clear();
        self.is_up = false;
    }

    fn tick(&mut self, _now: Millis) {}

    fn deadline(&self) -> Option<Millis> {
        None
    }

    fn poll(&mut self) -> Option<Message> {
        self.outputs.pop_front()
    }

    fn add(&mut self, _now: Millis) -> Result<()> {
        let total = self.totals.get(&self.number).copied().unwrap_or(0) + 1;
        self.set(self.number, total);
        let message = [self.number.to_le_bytes(), total.to_le_bytes()].concat();
        self.outputs.push_back(Message::Frame(message));
        Ok(())
    }

    fn leave(&mut self, _now: Millis) {}

    fn value(&mut self) -> i128 {
        self.sum
    }

    fn is_acknowledged(&self) -> Option<bool> {
        None
    }

    fn is_online(&self) -> bool {
        self.is_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(from: &mut impl Client, to: &mut impl Client) {
        while let Some(message) = from.poll() {
            let Message::Frame(bytes) = message else {
                panic!("a text");
            };
            to.frame(0, &bytes).expect("a frame");
        }
    }

    #[test]
    fn pages_of_others_show_the_sum() {
        let (mut a, mut b) = (YjsPage::new(0), YjsPage::new(1));
        a.add(0).expect("added");
        b.add(0).expect("added");
        b.add(0).expect("added");
        a.opened(0);
        b.opened(0);
        for _ in 0..3 {
            pass(&mut a, &mut b);
            pass(&mut b, &mut a);
        }
        assert_eq!((a.value(), b.value()), (3, 3));
        let (mut a, mut b) = (FloorPage::new(0), FloorPage::new(1));
        a.add(0).expect("added");
        a.add(0).expect("added");
        pass(&mut a, &mut b);
        assert_eq!((a.value(), b.value()), (2, 2));
    }
}
