//! The peers, each behind the few operations that are compared.

use crdts::{CmRDT, CvRDT, PNCounter};
use hashbrown::HashMap;
use yrs::{Any, Map as _, Out, ReadTxn as _, Transact as _, Update, updates::decoder::Decode as _};

/// Maps of counters of the `crdts` crate.
pub(crate) type Crdts = HashMap<String, PNCounter<u64>, foldhash::fast::RandomState>;

pub(crate) fn crdts_add(map: &mut Crdts, key: &str, writer: u64) {
    let counter = match map.get_mut(key) {
        Some(counter) => counter,
        None => map.entry(key.to_owned()).or_default(),
    };
    let op = counter.inc(writer);
    counter.apply(op);
}

pub(crate) fn crdts_add_many(map: &mut Crdts, key: &str, writer: u64, by: u64) {
    let counter = map.entry(key.to_owned()).or_default();
    let op = counter.inc_many(writer, by);
    counter.apply(op);
}

pub(crate) fn crdts_merge(ours: &mut Crdts, theirs: Crdts) {
    for (key, counter) in theirs {
        match ours.get_mut(&key) {
            Some(mine) => mine.merge(counter),
            None => {
                ours.insert(key, counter);
            }
        }
    }
}

/// A Loro document with a map of counters.
pub(crate) struct Loro(pub(crate) loro::LoroDoc);

impl Loro {
    pub(crate) fn new(peer: u64) -> Loro {
        let doc = loro::LoroDoc::new();
        // A peer id only has to differ; a fresh document takes any.
        let _ = doc.set_peer_id(peer);
        Loro(doc)
    }

    pub(crate) fn add(&self, key: &str, by: f64) {
        let map = self.0.get_map("counters");
        let counter = map.ensure_mergeable_counter(key);
        if let Ok(counter) = counter {
            let _ = counter.increment(by);
        }
        self.0.commit();
    }
}

/// A Yjs document: one map, an entry `key/writer` for each writer's total, as Yjs has no counter.
pub(crate) struct Yrs {
    pub(crate) doc: yrs::Doc,
    map: yrs::MapRef,
}

impl Yrs {
    pub(crate) fn new(client: u64) -> Yrs {
        let doc = yrs::Doc::with_client_id(client);
        let map = doc.get_or_insert_map("counters");
        Yrs { doc, map }
    }

    pub(crate) fn add(&self, key: &str, by: i64) {
        let mut txn = self.doc.transact_mut();
        let total = match self.map.get(&txn, key) {
            Some(Out::Any(Any::Number(yrs::Number::Int(total)))) => total,
            _ => 0,
        };
        self.map
            .insert(&mut txn, key, Any::Number(yrs::Number::Int(total + by)));
    }

    pub(crate) fn state(&self) -> Vec<u8> {
        let txn = self.doc.transact();
        txn.encode_state_as_update_v1(&yrs::StateVector::default())
    }

    pub(crate) fn merge(&self, bytes: &[u8]) {
        if let Ok(update) = Update::decode_v1(bytes) {
            let _ = self.doc.transact_mut().apply_update(update);
        }
    }
}

/// An Automerge document with a counter for each key.
pub(crate) struct Automerge(pub(crate) automerge::AutoCommit);

impl Automerge {
    pub(crate) fn new() -> Automerge {
        Automerge(automerge::AutoCommit::new())
    }

    pub(crate) fn create(&mut self, key: &str) {
        use automerge::transaction::Transactable as _;
        let counter = automerge::ScalarValue::counter(0);
        let _ = self.0.put(automerge::ROOT, key, counter);
    }

    pub(crate) fn add(&mut self, key: &str, by: i64) {
        use automerge::transaction::Transactable as _;
        let _ = self.0.increment(automerge::ROOT, key, by);
        self.0.commit();
    }
}
