//! Image of the state for a checkpoint, copied in small steps while blocks continue to be committed. The committer
//! reports each change before it is applied, and the old entries of keys that are not copied yet are kept aside. A
//! state on the disk is not copied: its image is complete when the database has the changes of the image's last block.

use crate::state::{Entry, Key, Keys, NamespaceState, State, Updates};
use crate::validate::Validator;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Layout number of a checkpoint that contains the state.
pub(super) const LAYOUT: u32 = 3;
/// Layout number of a checkpoint with the state that a version without expiry wrote. Such a version stopped before the
/// first block that wrote a key that expires. Keys that expire can therefore only come from a snapshot, and that
/// version never removed them.
pub(super) const LAYOUT_WITHOUT_EXPIRY: u32 = 1;
/// Layout number of a checkpoint without the state, which is in a database on the disk.
pub(super) const LAYOUT_STATELESS: u32 = 2;
/// Layout number of a checkpoint without the state, which is in a database on the disk, and without the ids and codes
/// of transactions, which are in separate files.
pub(super) const LAYOUT_FILED: u32 = 4;
/// Size in bytes at which the next piece of memory is begun, so that copied keys are never moved.
const PIECE_BYTES: usize = 1 << 20;

/// The part of a checkpoint that comes from a validator, as it was after block `last`.
pub(crate) struct Image {
    pub last: u64,
    pub(super) pieces: Vec<Vec<u8>>,
}

impl Image {
    /// Copies the whole image in one step. If the state is on the disk, the database must contain all changes.
    pub fn new(validator: &Validator, config_block: u64) -> Self {
        let state = validator.state.in_memory();
        let taking = ImageBuilder::begin(validator, config_block, state);
        taking
            .advance(&validator.state, usize::MAX)
            .unwrap_or_else(|more| more.image)
    }

    /// Creates the image that a validator with its state on the disk would have.
    pub fn stateless(validator: &Validator, config_block: u64) -> Self {
        ImageBuilder::begin(validator, config_block, None).image
    }

    /// Returns the total size of all pieces, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// An [`Image`] that is not complete yet.
pub(crate) struct ImageBuilder {
    image: Image,
    /// Sections that are not completely copied yet, in order.
    sections: VecDeque<ImageSection>,
    keys: usize,
}

/// Keys of a namespace or of one of its collections.
struct ImageSection {
    namespace: String,
    /// Name of the private data collection; empty for the public state.
    collection: String,
    /// Bytes to write before the keys.
    head: Vec<u8>,
    /// The last key that was copied.
    copied: Option<Key>,
    /// Keys that changed since the image was begun and are not copied yet, with their old entries.
    before: BTreeMap<Key, Option<Entry>>,
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_entry(out: &mut Vec<u8>, key: &[u8], entry: &Entry) {
    put_bytes(out, key);
    put_bytes(out, &entry.value);
    out.push(u8::from(entry.validation_parameter.is_some()));
    put_bytes(out, entry.validation_parameter.as_deref().unwrap_or_default());
    put_number(out, entry.version.block);
    put_number(out, entry.version.tx);
}

fn keys_of<'s>(state: &'s State, namespace: &str, collection: &str) -> Option<&'s Keys> {
    state.in_memory()?.get(namespace)?.keys(collection)
}

impl ImageBuilder {
    /// Begins an image of a validator whose configuration was set by block `config_block`. Only names and counts are
    /// copied now. `state` is the state, if it is in memory.
    pub fn begin(
        validator: &Validator,
        config_block: u64,
        state: Option<&HashMap<String, NamespaceState<Keys>>>,
    ) -> Self {
        let mut head = Vec::new();
        let layout = match state {
            Some(_) => LAYOUT,
            None => LAYOUT_STATELESS,
        };
        head.extend_from_slice(&layout.to_le_bytes());
        put_bytes(&mut head, validator.channel().as_bytes());
        put_number(&mut head, validator.last);
        put_number(&mut head, config_block);
        head.push(u8::from(validator.commit_hash.is_some()));
        head.extend_from_slice(&validator.commit_hash.unwrap_or_default());
        let mut sections = VecDeque::new();
        if let Some(state) = state {
            put_number(&mut head, state.len() as u64);
        }
        let mut spaces: Vec<(&String, &NamespaceState<Keys>)> = state.into_iter().flatten().collect();
        spaces.sort_unstable_by_key(|(name, _)| *name);
        let mut count = 0;
        for (name, space) in spaces {
            let mut head = Vec::new();
            put_bytes(&mut head, name.as_bytes());
            put_number(&mut head, space.collections.len() as u64 + 1);
            let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
            for (collection, keys) in std::iter::once(("", &space.public)).chain(collections) {
                put_bytes(&mut head, collection.as_bytes());
                put_number(&mut head, keys.len() as u64);
                count += keys.len();
                sections.push_back(ImageSection {
                    namespace: name.clone(),
                    collection: collection.to_owned(),
                    head: std::mem::take(&mut head),
                    copied: None,
                    before: BTreeMap::new(),
                });
            }
        }
        Self {
            image: Image {
                last: validator.last,
                pieces: vec![head],
            },
            sections,
            keys: count,
        }
    }

    /// Returns the number of keys at the beginning of the image.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Records the old entries of keys before `updates` are applied to `state`.
    pub fn save_old_entries(&mut self, state: &State, updates: &Updates) {
        for (namespace, collection, keys) in updates.collections() {
            let is = |section: &&mut ImageSection| {
                (section.namespace.as_str(), section.collection.as_str()) == (namespace, collection)
            };
            let Some(section) = self.sections.iter_mut().find(is) else {
                continue;
            };
            for key in keys.keys().filter(|key| section.copied.as_ref() < Some(*key)) {
                if !section.before.contains_key(key) {
                    let entry = state.get(namespace, collection, key).map(Cow::into_owned);
                    section.before.insert(key.clone(), entry);
                }
            }
        }
    }

    /// Copies up to `keys` more keys of `state`. Returns the image when it is complete.
    pub fn advance(mut self, state: &State, keys: usize) -> Result<Image, Self> {
        let settled = state
            .on_disk()
            .map(|disk| disk.durable_mark().map(|mark| mark.last));
        if settled.is_some_and(|last| last < Some(self.image.last)) {
            return Err(self);
        }
        let mut left = keys;
        while let Some(section) = self.sections.front_mut() {
            let pieces = &mut self.image.pieces;
            if !section.copy(state, pieces, &mut left) {
                return Err(self);
            }
            self.sections.pop_front();
        }
        Ok(self.image)
    }
}

impl ImageSection {
    /// Copies keys of this section until all are copied (returns `true`) or `left` keys were copied (returns `false`).
    fn copy(&mut self, state: &State, pieces: &mut Vec<Vec<u8>>, left: &mut usize) -> bool {
        let from = match &self.copied {
            Some(key) => Bound::Excluded(&**key),
            None => Bound::Unbounded,
        };
        let now = keys_of(state, &self.namespace, &self.collection).into_iter();
        let mut now = now
            .flat_map(|keys| keys.range((from, Bound::Unbounded)))
            .peekable();
        let mut last: Option<Key> = None;
        let done = loop {
            let out = match pieces.last_mut() {
                Some(piece) if piece.len() < PIECE_BYTES => piece,
                _ => {
                    pieces.push(Vec::with_capacity(2 * PIECE_BYTES));
                    continue;
                }
            };
            out.append(&mut self.head);
            if *left == 0 {
                break false;
            }
            *left -= 1;
            let changed = self.before.keys().next();
            let changed_first = match (now.peek(), changed) {
                (None, None) => break true,
                (Some((key, _)), Some(changed)) => changed <= key,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            if !changed_first {
                if let Some((key, entry)) = now.next() {
                    put_entry(out, key, entry);
                    last = Some(key.clone());
                }
            } else if let Some((key, entry)) = self.before.pop_first() {
                now.next_if(|(other, _)| **other == key);
                if let Some(entry) = entry {
                    put_entry(out, &key, &entry);
                }
                last = Some(key);
            }
        };
        if last.is_some() {
            self.copied = last;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{DurableMark, Height, Update};
    use crate::tests::network::Network;
    use lineside_testkit::Random;

    fn updates(random: &mut Random, block: u64, namespaces: u64) -> Updates {
        let mut updates = Updates::default();
        for tx in 0..random.below(30) {
            let namespace = format!("cc{}", random.below(namespaces));
            let collection = ["", "", "one", "two"][random.below(4) as usize];
            let key = random.below(200).to_be_bytes();
            let value = (random.below(3) > 0).then(|| {
                let parameter = (random.below(4) == 0).then(|| b"policy"[..].into());
                (random.next().to_be_bytes()[..].into(), parameter)
            });
            let version = Height { block, tx };
            updates.put(&namespace, collection, &key, Update { value, version });
        }
        updates
    }

    /// An image that is copied in random steps, while the state changes at random, equals the state with which the
    /// image began.
    #[test]
    fn an_image_holds_the_state_of_one_block() {
        let mut steps = 0;
        for seed in 1..60 {
            let mut random = Random(seed);
            let mut validator = Network::new().start(None);
            for block in 0..40 {
                let updates = updates(&mut random, block, 3);
                validator.state.apply(DurableMark::of(block), updates);
            }
            let whole = Image::new(&validator, 7);
            let mut taking = ImageBuilder::begin(&validator, 7, validator.state.in_memory());
            assert_eq!(taking.keys(), validator.state.len());
            let image = loop {
                let next = updates(&mut random, 100, 5);
                taking.save_old_entries(&validator.state, &next);
                validator.state.apply(DurableMark::of(100), next);
                match taking.advance(&validator.state, random.below(40) as usize) {
                    Ok(image) => break image,
                    Err(more) => taking = more,
                }
                steps += 1;
            };
            assert_eq!(image.pieces.concat(), whole.pieces.concat());
        }
        assert!(steps > 500, "{steps}");
    }
}
