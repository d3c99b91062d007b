//! Tests that compare repairs with an oracle. The oracle knows, from the undamaged journal, where each record is, and
//! therefore which records are intact after a damage.

mod common;

use common::{ReceivedResults, check, goes_on, group, payload, snapshot};
use lineside_journal::{
    Disk, Error, Journal, Lsn, Op, Options, RepairReport, SimDisk, confirm_repair, dump, dump_over_gaps,
    repair, repair_unconfirmed, verify,
};
use std::collections::{BTreeMap, BTreeSet};

/// Range of bytes of a file.
type Bytes = (String, std::ops::Range<u64>);

/// Undamaged journal, with the place of each record.
struct Whole {
    disk: SimDisk,
    received: ReceivedResults,
    /// File and bytes of each record.
    places: BTreeMap<Lsn, Bytes>,
}

impl Whole {
    /// Writes a journal of five segments, with a snapshot in the middle of the third.
    fn new() -> Whole {
        let disk = SimDisk::new(5);
        let mut received = ReceivedResults::default();
        let mut journal = Journal::create(disk.clone(), 77, Options::small()).unwrap();
        for round in 0..16 {
            group(&mut journal, &mut received, [3, 7, 1, 6][round % 4]).unwrap();
            if round == 9 {
                snapshot(&mut journal, &mut received).unwrap();
            }
        }
        drop(journal);
        drop(Journal::open(disk.clone(), Options::small()).unwrap());
        disk.sync_dir().unwrap();
        let mut places = BTreeMap::new();
        dump(&disk, 1, |record| {
            let bytes = (24 + record.payload.len() as u64).next_multiple_of(8);
            let file = format!("{:020}.log", record.segment);
            places.insert(record.lsn, (file, record.offset..record.offset + bytes));
        })
        .unwrap();
        let whole = Whole {
            disk,
            received,
            places,
        };
        let (file, _) = &whole.places[&whole.received.snapshot];
        let inside = |lsn: Lsn| whole.places[&lsn].0 == *file;
        assert!(inside(whole.received.snapshot - 2) && inside(whole.received.snapshot + 2));
        assert_eq!(whole.logs().len(), 5);
        whole
    }

    fn logs(&self) -> Vec<String> {
        let names = self.disk.list().unwrap();
        names.into_iter().filter(|name| name.ends_with(".log")).collect()
    }

    fn first_lsn(file: &str) -> Lsn {
        file[..20].parse().unwrap()
    }

    /// Returns the records of which every byte is unchanged on `damaged`.
    fn intact(&self, damaged: &SimDisk) -> BTreeSet<Lsn> {
        let same = |(file, range): &Bytes| {
            let range = range.start as usize..range.end as usize;
            let whole = self.disk.content(file).unwrap();
            // Zeros at the end of a record also return when the repair extends a short file to its right length.
            damaged.content(file).is_some_and(|mut now| {
                now.resize(whole.len(), 0);
                now[range.clone()] == whole[range]
            })
        };
        let same = self.places.iter().filter(|(_, place)| same(place));
        same.map(|(lsn, _)| *lsn).collect()
    }

    /// Returns the records that must remain: every intact record up to the snapshot, and the records after it up to the
    /// first one that is not intact.
    fn expected(&self, damaged: &SimDisk) -> BTreeSet<Lsn> {
        let intact = self.intact(damaged);
        let newest = self.received.snapshot;
        let after = (newest + 1..).take_while(|lsn| intact.contains(lsn));
        intact
            .iter()
            .copied()
            .take_while(|lsn| *lsn <= newest)
            .chain(after)
            .collect()
    }

    /// Repairs `damaged` and compares the result with the oracle.
    fn repairs(&self, damaged: &SimDisk, at: &str) -> RepairReport {
        let expected = self.expected(damaged);
        let report = repair(damaged, Options::small()).unwrap_or_else(|error| panic!("{at}: {error}"));
        self.is_right(damaged, &expected, at, &report);
        let last = expected
            .iter()
            .max()
            .copied()
            .unwrap_or(0)
            .max(self.received.snapshot);
        assert_eq!(report.last_lsn, last, "{at}: {report:?}");
        let lost = (last < self.received.durable).then_some((last + 1, self.received.durable));
        assert_eq!(report.lost, lost, "{at}: {report:?}");
        assert_eq!(
            report.dropped_from,
            lost.map(|(from, _)| from),
            "{at}: {report:?}"
        );
        report
    }

    /// Repairs `damaged` without an interruption, and with a power cut at each step, after which the repair is
    /// repeated. `seeds` is the number of power cuts at each step, which leave different unsynced changes. Returns the
    /// report.
    fn repairs_after_power_cuts(
        &self,
        damaged: &SimDisk,
        expected: &BTreeSet<Lsn>,
        seeds: u64,
        at: &str,
    ) -> RepairReport {
        let once = damaged.fork(1);
        let before = once.counts();
        let report = repair(&once, Options::small()).unwrap();
        let steps = once.counts().changes() - before.changes();
        self.is_right(&once, expected, at, &report);
        for (seed, step) in (0..seeds).flat_map(|seed| (1..=steps).map(move |step| (seed, step))) {
            let cut = damaged.fork(seed * 1000 + step);
            cut.cut_at(step);
            repair(&cut, Options::small()).unwrap_err();
            cut.power_cut();
            let at = format!("{at}, step {step} of {steps}, seed {seed}");
            repeats(self, &cut, expected, &report, &at);
        }
        report
    }

    /// Checks the records that remain, that the report names the gaps between them, that a second repair changes
    /// nothing, and that the journal can be used further.
    fn is_right(&self, repaired: &SimDisk, expected: &BTreeSet<Lsn>, at: &str, report: &RepairReport) {
        let found = verify(repaired).unwrap();
        assert!(found.is_sound(), "{at}: {report:?} {found:?}");
        let mut seen = BTreeSet::new();
        dump_over_gaps(repaired, 1, |record| {
            assert_eq!(
                (record.kind, record.payload),
                (record.lsn as u8, &payload(record.lsn)[..])
            );
            assert!(seen.insert(record.lsn));
        })
        .unwrap_or_else(|error| panic!("{at}: {error}: {report:?}"));
        assert_eq!(&seen, expected, "{at}: {report:?}");
        let missing = |(from, to): &(Lsn, Lsn)| (*from..=*to).all(|lsn| !seen.contains(&lsn));
        assert!(
            found.gaps.iter().chain(&report.gaps).all(missing),
            "{at}: {found:?}"
        );
        let newest = self.received.snapshot;
        let in_gaps: u64 = found.gaps.iter().map(|(from, to)| to - from + 1).sum();
        let begins = seen.first().copied().unwrap_or(newest + 1).min(newest + 1);
        let absent = (begins..=newest).filter(|lsn| !seen.contains(lsn)).count() as u64;
        assert_eq!(in_gaps, absent, "{at}: {found:?}");
        if report.gaps.iter().any(|(_, to)| to + 1 == begins) {
            assert!(found.begins_after_gap, "{at}: {report:?} {found:?}");
        }

        let before = repaired.counts().changes();
        let again = repair(repaired, Options::small()).unwrap();
        assert_eq!(again.notes, ["nothing is wrong"], "{at}");
        assert_eq!(
            repaired.counts().changes(),
            before,
            "{at}: a second repair has changed files"
        );

        let (journal, _) = Journal::open(repaired.clone(), Options::small()).unwrap();
        let last = report.last_lsn;
        let mut now = ReceivedResults {
            durable: last,
            appended: last,
            snapshot: newest,
        };
        check(&journal, &now).unwrap_or_else(|error| panic!("{at}: {error}: {report:?}"));
        drop(journal);
        goes_on(&repaired.fork(1), &mut now).unwrap_or_else(|error| panic!("{at}: {error}: {report:?}"));
    }
}

/// Seeded random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

#[test]
fn a_flipped_bit_costs_one_record_before_the_snapshot_and_all_later_ones_after_it() {
    let whole = Whole::new();
    let newest = whole.received.snapshot;
    let mut costs = [0; 4];
    for name in whole.logs() {
        for offset in 0..whole.disk.content(&name).unwrap().len() as u64 {
            let damaged = whole.disk.fork(offset);
            assert!(damaged.rot(&name, offset, 1 << (offset % 8)));
            let hit = whole
                .places
                .iter()
                .find(|(_, place)| place.0 == name && place.1.contains(&offset));
            let report = whole.repairs(&damaged, &format!("{name} at {offset}"));
            let gaps: &[_] = match hit {
                Some((lsn, _)) if *lsn <= newest => &[(*lsn, *lsn)],
                _ => &[],
            };
            assert_eq!(report.gaps, gaps, "{name} at {offset}: {report:?}");
            let kind = match hit {
                _ if offset < 64 => 0,
                None => 1,
                Some((lsn, _)) => 2 + usize::from(*lsn > newest),
            };
            costs[kind] += 1;
        }
    }
    assert!(
        costs[0] == 5 * 64 && costs.iter().all(|count| *count > 300),
        "{costs:?}"
    );
}

/// Damages one or more files: zeros, noise, shorter files and missing files.
fn harm(whole: &Whole, damaged: &SimDisk, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let logs = whole.logs();
        let name = &logs[random.below(logs.len() as u64) as usize];
        let Some(mut content) = damaged.content(name) else {
            continue;
        };
        let from = (random.below(content.len() as u64 + 1)) as usize;
        let to = (from + 1 + random.below(1500) as usize).min(content.len());
        match random.below(6) {
            0 => content[from..to].fill(0),
            1 | 2 => content[from..to]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 + random.below(255) as u8),
            3 => content.truncate(from),
            4 => content[..64.min(to)].fill(0xa5),
            // A journal without its first segment looks like a pruned one.
            _ if *name != logs[0] => {
                damaged.put(name, None);
                continue;
            }
            _ => content.fill(0),
        }
        damaged.put(name, Some(content));
    }
}

#[test]
fn every_intact_record_before_the_snapshot_remains_after_any_damage() {
    let whole = Whole::new();
    let (mut unsound, mut with_gaps, mut continued) = (0, 0, 0);
    for seed in 0..3_000 {
        let damaged = whole.disk.fork(seed);
        harm(&whole, &damaged, &mut Random(seed * 7 + 1));
        if verify(&damaged).unwrap().is_sound() {
            continue;
        }
        unsound += 1;
        let report = whole.repairs(&damaged, &format!("seed {seed}"));
        with_gaps += u64::from(report.gaps.len() > 1);
        continued += u64::from(report.last_lsn > whole.received.snapshot && !report.gaps.is_empty());
    }
    assert!(
        unsound > 2_000 && with_gaps > 300 && continued > 300,
        "{unsound} {with_gaps} {continued}"
    );
}

/// Returns the damaged journals for the tests that interrupt a repair.
fn damages(whole: &Whole) -> Vec<(&'static str, SimDisk)> {
    let logs = whole.logs();
    let middle = &whole.places[&(whole.received.snapshot - 2)];
    let noise = || Some(vec![0xa5; 4096]);
    let with = |change: &dyn Fn(&SimDisk)| {
        let damaged = whole.disk.fork(1);
        change(&damaged);
        damaged
    };
    let flip = |damaged: &SimDisk, (file, range): &Bytes| assert!(damaged.rot(file, range.start + 9, 4));
    let last = *whole.places.keys().max().unwrap();
    vec![
        ("a record before the snapshot", with(&|disk| flip(disk, middle))),
        ("the first segment", with(&|disk| disk.put(&logs[0], noise()))),
        (
            "a segment before the snapshot",
            with(&|disk| disk.put(&logs[1], noise())),
        ),
        (
            "the segment with the snapshot",
            with(&|disk| disk.put(&logs[2], noise())),
        ),
        (
            "a segment after the snapshot",
            with(&|disk| disk.put(&logs[3], noise())),
        ),
        ("the last record", with(&|disk| flip(disk, &whole.places[&last]))),
        (
            "a record after the snapshot",
            with(&|disk| flip(disk, &whole.places[&(whole.received.snapshot + 2)])),
        ),
        (
            "headers, and the first record of the second segment",
            with(&|disk| {
                logs.iter().for_each(|name| assert!(disk.rot(name, 50, 1)));
                flip(disk, &whole.places[&Whole::first_lsn(&logs[1])]);
            }),
        ),
        (
            "short files, one with a damaged record",
            with(&|disk| {
                for name in [&logs[1], &logs[4]] {
                    let mut content = disk.content(name).unwrap();
                    content.truncate(3000);
                    disk.put(name, Some(content));
                }
                flip(disk, &whole.places[&(Whole::first_lsn(&logs[1]) + 2)]);
            }),
        ),
    ]
}

/// A repair that ends at any step, by a power cut or by an error of the disk, gives the same result when it is
/// repeated.
#[test]
fn a_repair_that_is_interrupted_at_any_step_can_be_repeated() {
    let whole = Whole::new();
    for has_mark in [true, false] {
        for (what, damaged) in damages(&whole) {
            if !has_mark {
                damaged.put("acknowledged", None);
            }
            let expected = whole.expected(&damaged);
            let at = format!("{what}, mark {has_mark}");
            let report = whole.repairs_after_power_cuts(&damaged, &expected, 4, &at);
            for op in [
                Op::Create,
                Op::Allocate,
                Op::Write,
                Op::SyncData,
                Op::Rename,
                Op::Remove,
                Op::SyncDir,
            ] {
                for number in 1.. {
                    let failing = damaged.fork(number);
                    failing.fail_nth(op, number);
                    if repair(&failing, Options::small()).is_ok() {
                        break;
                    }
                    failing.clear_faults();
                    failing.kill();
                    repeats(
                        &whole,
                        &failing,
                        &expected,
                        &report,
                        &format!("{at}, {op:?} {number}"),
                    );
                }
            }
        }
    }
}

#[test]
fn segments_whose_names_were_exchanged_lose_no_record() {
    let whole = Whole::new();
    let all: BTreeSet<Lsn> = whole.places.keys().copied().collect();
    let logs = whole.logs();
    let pairs = (0..logs.len()).flat_map(|one| (one + 1..logs.len()).map(move |other| (one, other)));
    for (one, other) in pairs.map(|(one, other)| (&logs[one], &logs[other])) {
        // The headers may be damaged, too: then the first records show to which segment a file belongs.
        for damaged_headers in [&[][..], &[one], &[other], &[one, other]] {
            let exchanged = whole.disk.fork(1);
            exchanged.put(one, whole.disk.content(other));
            exchanged.put(other, whole.disk.content(one));
            for name in damaged_headers {
                assert!(exchanged.rot(name, 20, 1));
            }
            assert!(Journal::open(exchanged.clone(), Options::small()).is_err());
            let at = format!("{one} and {other}, damaged headers of {damaged_headers:?}");
            let report = whole.repairs_after_power_cuts(&exchanged, &all, 1, &at);
            let loss = (report.lost, report.dropped_from, &report.gaps[..]);
            assert_eq!(loss, (None, None, &[][..]), "{at}: {report:?}");
        }
    }
}

/// The checksums of the records show the id that the headers, the mark and the snapshot no longer show.
#[test]
fn records_remain_although_every_header_the_mark_and_the_snapshot_are_gone() {
    let whole = Whole::new();
    let damaged = whole.disk.fork(1);
    for name in whole.disk.list().unwrap() {
        match name.ends_with(".log") {
            true => assert!(damaged.rot(&name, 17, 1)),
            false => damaged.put(&name, None),
        }
    }
    let report = repair(&damaged, Options::small()).unwrap();
    assert_eq!(
        (report.last_lsn, report.dropped_from),
        (whole.received.durable, None),
        "{report:?}"
    );
    let (mut seen, mut number) = (BTreeSet::new(), 0);
    dump(&damaged, 1, |record| {
        assert_eq!(record.payload, payload(record.lsn));
        number += 1;
        seen.insert(record.lsn);
    })
    .unwrap();
    assert!(seen.iter().eq(whole.places.keys()) && number == seen.len());
    let (mut journal, _) = Journal::open(damaged, Options::small()).unwrap();
    group(&mut journal, &mut ReceivedResults::default(), 3).unwrap();
}

/// The operator restores files after a repair that was not confirmed: records that exist again are not reported as
/// lost.
#[test]
fn restored_records_are_not_reported_as_lost() {
    let whole = Whole::new();
    for (what, damaged) in damages(&whole) {
        repair_unconfirmed(&damaged, Options::small()).unwrap();
        for name in whole.disk.list().unwrap() {
            damaged.put(&name, whole.disk.content(&name));
        }
        let report = repair(&damaged, Options::small()).unwrap();
        let loss = (report.lost, report.dropped_from, &report.gaps[..]);
        assert_eq!(loss, (None, None, &[][..]), "{what}: {report:?}");
        assert_eq!(report.last_lsn, whole.received.durable, "{what}");
    }
}

#[test]
fn a_journal_stays_closed_until_its_repair_is_confirmed() {
    let whole = Whole::new();
    let damaged = whole.disk.fork(1);
    let last = whole.received.durable;
    let (file, range) = &whole.places[&last];
    assert!(damaged.rot(file, range.start + 4, 1));
    let first = repair_unconfirmed(&damaged, Options::small()).unwrap();
    assert_eq!(first.lost, Some((last, last)));
    for _ in 0..3 {
        assert!(matches!(
            Journal::open(damaged.clone(), Options::small()),
            Err(Error::Unrepaired)
        ));
        assert!(!verify(&damaged).unwrap().is_sound());
        let again = repair_unconfirmed(&damaged, Options::small()).unwrap();
        assert_eq!(
            (again.lost, again.last_lsn),
            (first.lost, first.last_lsn),
            "{again:?}"
        );
    }
    confirm_repair(&damaged).unwrap();
    let (_, recovery) = Journal::open(damaged, Options::small()).unwrap();
    assert_eq!(recovery.last_lsn, last - 1);
}

/// Repairs again, and compares the result with the result of a repair that was not interrupted.
fn repeats(whole: &Whole, disk: &SimDisk, expected: &BTreeSet<Lsn>, once: &RepairReport, at: &str) {
    if verify(disk).unwrap().is_sound() {
        // The interrupted repair only had to remove its record.
        let finished = RepairReport {
            last_lsn: once.last_lsn,
            ..RepairReport::default()
        };
        whole.is_right(disk, expected, at, &finished);
        return;
    }
    assert!(
        Journal::open(disk.fork(1), Options::small()).is_err() || is_early_damage(disk),
        "{at}"
    );
    let report = repair(disk, Options::small()).unwrap();
    let loss = |report: &RepairReport| {
        let dropped = (report.dropped_from, report.dropped_whole_records);
        (report.last_lsn, report.lost, dropped, report.gaps.clone())
    };
    assert_eq!(loss(&report), loss(once), "{at}: {report:?}");
    whole.is_right(disk, expected, at, &report);
}

/// Returns whether the first damage is before the last segment. Opening a journal does not read the records there.
fn is_early_damage(disk: &SimDisk) -> bool {
    let found = verify(disk).unwrap();
    found
        .findings
        .iter()
        .all(|finding| finding.file.ends_with(".log"))
        && !disk.list().unwrap().contains(&"repair".into())
}

/// On a full disk a repair fails before it has renamed or changed anything, and reports the loss once there is space.
#[test]
fn a_repair_on_a_full_disk_changes_nothing() {
    let whole = Whole::new();
    let mut refused = 0;
    for has_mark in [true, false] {
        for (what, damaged) in damages(&whole) {
            if !has_mark {
                damaged.put("acknowledged", None);
            }
            // The repair itself removes the file `next.tmp`, so it is left out of the comparison.
            damaged.put("next.tmp", None);
            let contents = |disk: &SimDisk| {
                let names = disk.list().unwrap().into_iter();
                let contents = names.map(|name| (disk.content(&name), name));
                contents.collect::<Vec<_>>()
            };
            let once = damaged.fork(1);
            let expected = repair(&once, Options::small()).unwrap();
            let before = contents(&damaged);
            for free_bytes in (0..).step_by(512) {
                damaged.set_capacity_bytes(Some(damaged.used_bytes() + free_bytes));
                match repair(&damaged.fork(1), Options::small()) {
                    Ok(_) => break,
                    Err(Error::Full { .. }) => refused += 1,
                    Err(error) => panic!("{what}: {error}"),
                }
                assert!(matches!(
                    repair(&damaged, Options::small()),
                    Err(Error::Full { .. })
                ));
                assert_eq!(contents(&damaged), before, "{what}, {free_bytes} bytes free");
            }
            damaged.set_capacity_bytes(None);
            let report = repair(&damaged, Options::small()).unwrap();
            assert_eq!(report, expected, "{what}");
            if report.last_lsn < whole.received.durable {
                let from = report.last_lsn + 1;
                let is_shown = has_mark || what != "the last record";
                assert_eq!(
                    report.dropped_from,
                    is_shown.then_some(from),
                    "{what}: {report:?}"
                );
            }
        }
    }
    assert!(refused > 100, "{refused}");
}
