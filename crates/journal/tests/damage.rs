//! Tests with bit rot in every byte, and with files that are missing, duplicated, truncated or foreign; and tests of
//! `verify` and `repair`.

mod common;

use common::{ReceivedResults, check, goes_on, group, payload, snapshot, state};
use lineside_journal::{
    Disk, Error, Finding, Journal, Lsn, Options, SimDisk, dump, dump_over_gaps, first_unbroken, repair,
    verify,
};
use std::io::Read;

/// Journal of four segments and two snapshots that was closed normally.
fn small() -> (SimDisk, ReceivedResults) {
    written(Options::small())
}

fn written(options: Options) -> (SimDisk, ReceivedResults) {
    let disk = SimDisk::new(5);
    let mut told = ReceivedResults::default();
    let mut journal = Journal::create(disk.clone(), 77, options).unwrap();
    for (round, records) in [3, 9, 9, 9, 4, 9, 9, 3].into_iter().enumerate() {
        group(&mut journal, &mut told, records).unwrap();
        if round == 2 || round == 4 {
            snapshot(&mut journal, &mut told).unwrap();
        }
    }
    (disk, told)
}

/// Returns the names of the segments.
fn logs(disk: &SimDisk) -> Vec<String> {
    let names = disk.list().unwrap();
    names.into_iter().filter(|name| name.ends_with(".log")).collect()
}

/// Reads all records that can be read, and checks that each is the one that was written.
fn replay(journal: &Journal<SimDisk>) -> (Lsn, Option<Error>) {
    let mut next = journal.first_lsn();
    let mut records = journal.records(next).unwrap();
    loop {
        match records.next() {
            Ok(Some(record)) => {
                assert_eq!((record.lsn, record.kind), (next, next as u8));
                assert_eq!(record.payload, payload(next));
                next += 1;
            }
            Ok(None) => return (next - 1, None),
            Err(error) => return (next - 1, Some(error)),
        }
    }
}

fn opens(disk: &SimDisk) -> Result<(Journal<SimDisk>, lineside_journal::Recovery), Error> {
    Journal::open(disk.fork(1), Options::small())
}

#[test]
fn bit_rot_in_any_byte_is_found_or_harmless() {
    let (disk, told) = small();
    let last = logs(&disk).pop().unwrap();
    let (mut refused, mut lost, mut harmless) = (0, 0, 0);
    for name in disk.list().unwrap() {
        for offset in 0..disk.content(&name).unwrap().len() as u64 {
            let rotten = disk.fork(offset);
            assert!(rotten.rot(&name, offset, 1 << (offset % 8)));
            let found = verify(&rotten).unwrap();
            let at = format!("{name} at {offset}: {found:?}");
            if name.ends_with(".snap") {
                assert!(!found.is_sound(), "{at}");
                snapshot_is_passed_over(&rotten, &name);
                refused += 1;
            } else {
                match opens(&rotten) {
                    Err(Error::EndLost { file, from, to, .. }) => {
                        // The damage is in the last group; without the mark, it would look like an unfinished group.
                        assert!(file == name && name == last && !found.is_sound(), "{at}");
                        assert_eq!((from, to), (found.last_lsn + 1, told.durable), "{at}");
                        assert!(found.unfinished_bytes > 0 && from > told.durable - 3, "{at}");
                        lost += 1;
                    }
                    Err(error) => {
                        let typed = matches!(&error, Error::Damaged { file, .. } if *file == name);
                        assert!(typed && !found.is_sound(), "{at}: {error}");
                        refused += 1;
                    }
                    Ok((journal, recovery)) => match replay(&journal) {
                        (_, Some(Error::Damaged { file, .. })) => {
                            assert!(file == name && !found.is_sound(), "{at}");
                            refused += 1;
                        }
                        (end, None) if end == told.durable => {
                            // The damage is in unused space, or in one slot of the mark.
                            assert!(found.is_sound(), "{at}");
                            harmless += 1;
                        }
                        (end, error) => panic!("{at}: {end}, {error:?}, {recovery:?}"),
                    },
                }
            }
            repairs(&rotten, &told, &at);
        }
    }
    assert!(
        refused > 5000 && lost > 100 && harmless > 100,
        "{refused} {lost} {harmless}"
    );
}

fn snapshot_is_passed_over(disk: &SimDisk, name: &str) {
    let (journal, _) = opens(disk).unwrap();
    let latest = journal.latest_snapshot().unwrap();
    let mut snapshot = latest.snapshot.unwrap();
    let newer = name > format!("{:020}.snap", snapshot.lsn).as_str();
    assert_eq!(latest.damaged.iter().any(|damaged| damaged.file == name), newer);
    let mut read = Vec::new();
    snapshot.read_to_end(&mut read).unwrap();
    assert_eq!(read, state(snapshot.lsn));
}

/// Checks a repair: afterwards the journal is intact, it has no invented record, only records after the damage are
/// lost, and the journal can be used further.
fn repairs(disk: &SimDisk, told: &ReceivedResults, at: &str) {
    let files_before = disk.list().unwrap().len();
    let before = verify(disk).unwrap();
    let report = repair(disk, Options::small()).unwrap();
    let after = verify(disk).unwrap();
    assert!(after.is_sound(), "{at}: {report:?} {after:?}");
    assert!(
        disk.list().unwrap().len() >= files_before,
        "{at}: the repair has removed a file"
    );
    if before.is_sound() {
        assert!(
            report.moved.is_empty() && report.dropped_from.is_none(),
            "{at}: {report:?}"
        );
    } else {
        assert!(
            !report.moved.is_empty() || !report.rewritten.is_empty() || report.lost.is_some(),
            "{at}: {report:?}"
        );
        assert!(
            report.last_lsn == told.durable || report.dropped_from == Some(report.last_lsn + 1),
            "{at}: {report:?}"
        );
    }
    let newest = after
        .snapshots
        .iter()
        .map(|snapshot| snapshot.lsn)
        .max()
        .unwrap_or(0);
    assert!(
        report.last_lsn >= newest && report.last_lsn <= told.durable,
        "{at}: {report:?}"
    );
    let mut now = ReceivedResults {
        durable: report.last_lsn.min(after.last_lsn),
        appended: told.appended,
        snapshot: newest,
    };
    goes_on(disk, &mut now).unwrap_or_else(|error| panic!("{at}: {error}; {report:?}"));
}

#[test]
fn a_missing_file_is_reported() {
    let (disk, told) = small();
    let names = logs(&disk);
    assert!(names.len() >= 4, "{names:?}");
    for (number, name) in names.iter().enumerate() {
        let gone = disk.fork(1);
        gone.put(name, None);
        match opens(&gone) {
            // A pruned journal also begins with a later record; `verify` reports that no snapshot covers the missing
            // records.
            Ok((journal, _)) if number == 0 => assert!(journal.first_lsn() > 1),
            Err(Error::Missing { file, .. }) if number > 0 => assert_eq!(Some(&file), names.get(number + 1)),
            // The mark shows that the last segment existed.
            Err(Error::EndLost { file, to, .. }) if number == names.len() - 1 => {
                assert_eq!((&file, to), (&names[number - 1], told.durable));
            }
            other => panic!("{name}: {:?}", other.map(|(_, recovery)| recovery)),
        }
        if number > 0 {
            assert!(!verify(&gone).unwrap().is_sound());
            repairs(&gone, &told, name);
        }
    }
    let headless = disk.fork(1);
    names.iter().for_each(|name| headless.put(name, None));
    assert!(matches!(opens(&headless), Err(Error::Missing { .. })));
    assert!(!verify(&headless).unwrap().is_sound());
    let report = repair(&headless, Options::small()).unwrap();
    assert_eq!(report.last_lsn, told.snapshot);
    let (journal, recovery) = opens(&headless).unwrap();
    assert_eq!((recovery.last_lsn, recovery.journal_id), (told.snapshot, 77));
    assert_eq!(
        journal.latest_snapshot().unwrap().snapshot.unwrap().lsn,
        told.snapshot
    );
}

/// A repair that drops acknowledged records reports them; the next opening succeeds.
#[test]
fn a_repair_reports_the_acknowledged_records_that_are_lost() {
    let (disk, told) = small();
    let last = logs(&disk).pop().unwrap();
    let mut places = Vec::new();
    dump(&disk, told.durable, |record| places.push(record.offset)).unwrap();
    assert!(disk.rot(&last, places[0] + 30, 4));
    assert!(matches!(opens(&disk), Err(Error::EndLost { .. })));
    let before = disk.content(&last).unwrap();
    let report = repair(&disk, Options::small()).unwrap();
    assert_eq!(report.lost, Some((told.durable, told.durable)));
    assert_eq!(report.last_lsn, told.durable - 1);
    assert_eq!(disk.content(&format!("{last}.damaged")).unwrap(), before);
    assert_eq!(opens(&disk).unwrap().1.cut_bytes, 0);
    assert_eq!(
        repair(&disk, Options::small()).unwrap().notes,
        ["nothing is wrong"]
    );
}

/// Returns a journal whose last segment has records before and after the newest snapshot, and the name of that
/// segment.
fn snapshot_in_the_last_segment() -> (SimDisk, ReceivedResults, String) {
    let (disk, mut told) = small();
    let (mut journal, _) = Journal::open(disk.clone(), Options::small()).unwrap();
    snapshot(&mut journal, &mut told).unwrap();
    group(&mut journal, &mut told, 1).unwrap();
    drop(journal);
    // Opening creates the mark again; its name is durable after the next sync of the directory.
    drop(Journal::open(disk.clone(), Options::small()).unwrap());
    disk.sync_dir().unwrap();
    let last = logs(&disk).pop().unwrap();
    let first: Lsn = last[..20].parse().unwrap();
    assert!(first < told.snapshot && told.snapshot < told.durable);
    (disk, told, last)
}

/// If the last segment is unusable, the older segments remain, and the journal continues after the snapshot.
#[test]
fn an_unusable_last_segment_does_not_cost_older_segments() {
    let (disk, told, last) = snapshot_in_the_last_segment();
    let first: Lsn = last[..20].parse().unwrap();
    let length = disk.content(&last).unwrap().len();
    let unusable = [vec![0; length], vec![0xa5; length], Vec::new()];
    for (bytes, rotten) in unusable.into_iter().map(|bytes| (bytes, disk.fork(1))) {
        rotten.put(&last, Some(bytes));
        assert!(opens(&rotten).is_err());
        let older: Vec<_> = logs(&rotten).into_iter().filter(|name| *name != last).collect();
        let report = repair(&rotten, Options::small()).unwrap();
        let moved = [(last.clone(), format!("{last}.damaged"))];
        assert_eq!(report.moved, moved, "{report:?}");
        assert_eq!(report.gaps, [(first, told.snapshot)]);
        assert_eq!(report.lost, Some((told.snapshot + 1, told.durable)));
        assert_eq!(report.last_lsn, told.snapshot);
        for name in &older {
            assert_eq!(rotten.content(name), disk.content(name), "{name}");
        }
        let found = verify(&rotten).unwrap();
        assert!(found.is_sound() && found.is_proved, "{found:?}");
        assert_eq!(found.gaps, [(first, told.snapshot)]);
        assert_eq!(first_unbroken(&rotten).unwrap(), told.snapshot + 1);
        let again = repair(&rotten, Options::small()).unwrap();
        assert_eq!(again.notes, ["nothing is wrong"]);
        // Reading across the lost records fails unless the caller asks for it.
        let (journal, recovery) = opens(&rotten).unwrap();
        assert_eq!((recovery.first_lsn, recovery.last_lsn), (1, told.snapshot));
        let (end, error) = replay(&journal);
        let expected = (first, told.snapshot);
        assert!(
            matches!(error, Some(Error::Missing { from, to, .. }) if (from, to) == expected),
            "{error:?}"
        );
        assert_eq!(end, first - 1);
        let mut now = ReceivedResults {
            durable: told.snapshot,
            appended: told.snapshot,
            snapshot: told.snapshot,
        };
        goes_on(&rotten, &mut now).unwrap();
        let mut seen = Vec::new();
        dump_over_gaps(&rotten, 1, |record| seen.push(record.lsn)).unwrap();
        assert!(
            seen.iter()
                .copied()
                .eq((1..first).chain(told.snapshot + 1..=now.durable))
        );
        // Bit rot in files that a repair created is found like any other, and repaired again.
        for name in logs(&rotten).into_iter().filter(|name| !older.contains(name)) {
            for offset in 0..80 {
                let worse = rotten.fork(offset);
                assert!(worse.rot(&name, offset, 1));
                repairs(&worse, &now, &format!("{name} at {offset}"));
            }
        }
        // Without a snapshot that replaces the lost records, only the records before them remain.
        let snapshots = rotten
            .list()
            .unwrap()
            .into_iter()
            .filter(|name| name.ends_with(".snap"));
        snapshots.for_each(|name| rotten.put(&name, None));
        let found = verify(&rotten).unwrap();
        assert_eq!((found.findings.len(), found.findings[0].lsn), (1, 1), "{found:?}");
        let report = repair(&rotten, Options::small()).unwrap();
        assert_eq!(report.last_lsn, first - 1, "{report:?}");
        assert_eq!(report.lost, Some((first, now.durable)));
        assert!(verify(&rotten).unwrap().is_sound());
    }
}

/// A repair that is interrupted at any step can be repeated, and still reports what is lost.
#[test]
fn an_interrupted_repair_is_repeated() {
    let (disk, told, last) = snapshot_in_the_last_segment();
    disk.put(&last, Some(vec![0xa5; 100]));
    let whole = disk.fork(1);
    let before = whole.counts();
    repair(&whole, Options::small()).unwrap();
    let steps = whole.counts().changes() - before.changes();
    assert!(steps > 5, "{steps}");
    for step in 1..=steps {
        let cut = disk.fork(step);
        cut.cut_at(step);
        assert!(repair(&cut, Options::small()).is_err());
        cut.power_cut();
        if opens(&cut).is_ok() {
            // The last step of a repair is to rename the new mark.
            assert!(
                step + 1 >= steps,
                "step {step} of {steps}: the interrupted repair must not look intact"
            );
            continue;
        }
        let report = repair(&cut, Options::small()).unwrap();
        assert_eq!(
            report.lost,
            Some((told.snapshot + 1, told.durable)),
            "step {step}: {report:?}"
        );
        assert!(verify(&cut).unwrap().is_sound(), "step {step}");
    }
}

#[test]
fn a_repair_without_space_leaves_no_partial_copy() {
    let (disk, told) = small();
    let last = logs(&disk).pop().unwrap();
    let mut places = Vec::new();
    dump(&disk, told.durable, |record| places.push(record.offset)).unwrap();
    assert!(disk.rot(&last, places[0] + 30, 4));
    let before = disk.list().unwrap();
    for free_bytes in [0, 100, 600] {
        let capacity_bytes = disk.used_bytes() + free_bytes;
        disk.set_capacity_bytes(Some(capacity_bytes));
        let refused = repair(&disk, Options::small());
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        assert_eq!(disk.list().unwrap(), before, "{free_bytes} bytes were free");
    }
    disk.set_capacity_bytes(None);
    let report = repair(&disk, Options::small()).unwrap();
    assert_eq!(report.lost, Some((told.durable, told.durable)));
}

/// If only the header of a segment is damaged, the repair writes the header again.
#[test]
fn a_damaged_header_of_the_only_segment_loses_no_record() {
    let disk = SimDisk::new(5);
    let mut journal = Journal::create(disk.clone(), 77, Options::small()).unwrap();
    group(&mut journal, &mut ReceivedResults::default(), 3).unwrap();
    drop(journal);
    assert!(disk.rot("00000000000000000001.log", 50, 1));
    let found = verify(&disk).unwrap();
    assert_eq!((found.journal_id, found.findings.len()), (77, 1), "{found:?}");
    let report = repair(&disk, Options::small()).unwrap();
    assert_eq!((report.last_lsn, report.lost), (3, None), "{report:?}");
    assert_eq!(opens(&disk).unwrap().1.last_lsn, 3);
    // If no part of the file is intact, the mark still shows which records are lost.
    disk.put("00000000000000000001.log", Some(vec![0xa5; 4096]));
    let report = repair(&disk, Options::small()).unwrap();
    assert_eq!((report.last_lsn, report.lost), (0, Some((1, 3))), "{report:?}");
    assert!(matches!(opens(&disk), Err(Error::NoJournal)));
    Journal::create(disk, 78, Options::small()).unwrap();
}

/// A damaged slot of the mark proves nothing, and opening the journal reports that.
#[test]
fn a_damaged_slot_of_the_mark_proves_nothing() {
    let (disk, told) = small();
    assert!(opens(&disk).unwrap().1.is_proved);
    assert!(disk.rot("acknowledged", 512 + 17, 1));
    assert!(!verify(&disk).unwrap().is_proved);
    let (_, recovery) = opens(&disk).unwrap();
    assert_eq!((recovery.last_lsn, recovery.is_proved), (told.durable, false));
}

/// A journal of which only the mark is left does not open; a repair makes it an empty journal.
#[test]
fn missing_segments_are_reported_if_only_the_mark_is_left() {
    let disk = SimDisk::new(5);
    let mut journal = Journal::create(disk.clone(), 77, Options::small()).unwrap();
    group(&mut journal, &mut ReceivedResults::default(), 3).unwrap();
    drop(journal);
    disk.put("00000000000000000001.log", None);
    let opened = opens(&disk).err();
    assert!(
        matches!(opened, Some(Error::Missing { from: 1, to: 3, .. })),
        "{opened:?}"
    );
    let found = verify(&disk).unwrap();
    assert_eq!(
        (found.findings.len(), found.acknowledged_lsn),
        (1, Some(3)),
        "{found:?}"
    );
    let made = Journal::create(disk.fork(1), 78, Options::small());
    assert!(matches!(made, Err(Error::Exists { .. })));
    assert_eq!(repair(&disk, Options::small()).unwrap().lost, Some((1, 3)));
    assert!(matches!(opens(&disk), Err(Error::NoJournal)));
    // The empty journal is intact, and has no record.
    assert_eq!(
        repair(&disk, Options::small()).unwrap().notes,
        ["nothing is wrong"]
    );
    assert!(verify(&disk).unwrap().is_sound());
    dump(&disk, 1, |record| panic!("record {}", record.lsn)).unwrap();
    Journal::create(disk, 78, Options::small()).unwrap();
}

/// A damaged mark without segments shows no number of a lost record, but it is reported as damage.
#[test]
fn a_damaged_mark_without_segments_is_repaired() {
    let disk = SimDisk::new(5);
    drop(Journal::create(disk.clone(), 77, Options::small()).unwrap());
    disk.put("00000000000000000001.log", None);
    disk.put("acknowledged", Some(Vec::new()));
    assert!(matches!(opens(&disk), Err(Error::Damaged { .. })));
    assert!(!verify(&disk).unwrap().is_sound());
    let report = repair(&disk, Options::small()).unwrap();
    assert_eq!((report.last_lsn, report.lost), (0, None));
    assert_eq!(
        report.moved,
        [("acknowledged".into(), "acknowledged.damaged".into())]
    );
    assert!(verify(&disk).unwrap().is_sound());
    assert!(matches!(opens(&disk), Err(Error::NoJournal)));
}

/// A mark that is damaged or belongs to another journal is an error; a repair removes the mark without losing records.
#[test]
fn a_damaged_and_a_foreign_mark_are_named() {
    let (disk, told) = small();
    let foreign = SimDisk::new(6);
    Journal::create(foreign.clone(), 78, Options::small()).unwrap();
    let damaged = vec![1; 544];
    for content in [foreign.content("acknowledged").unwrap(), damaged] {
        disk.put("acknowledged", Some(content));
        let refused = opens(&disk).err();
        let file = match &refused {
            Some(Error::Foreign { file, .. } | Error::Damaged { file, .. }) => file,
            other => panic!("{other:?}"),
        };
        assert_eq!(file, "acknowledged");
        assert!(!verify(&disk).unwrap().is_sound());
        let report = repair(&disk, Options::small()).unwrap();
        assert_eq!((report.last_lsn, report.lost), (told.durable, None));
        assert_eq!(opens(&disk).unwrap().1.last_lsn, told.durable);
    }
}

#[test]
fn a_duplicate_a_foreign_file_and_a_file_of_another_version_are_named() {
    let (disk, told) = small();
    let names = logs(&disk);
    let first = disk.content(&names[0]).unwrap();

    let doubled = disk.fork(1);
    let copy = "00000000000000000005.log";
    doubled.put(copy, Some(first.clone()));
    assert!(
        matches!(opens(&doubled), Err(Error::Duplicate { file, other }) if file == copy && other == names[0])
    );
    repairs(&doubled, &told, "doubled");

    let other = SimDisk::new(1);
    let mut journal = Journal::create(other.clone(), 78, Options::small()).unwrap();
    group(&mut journal, &mut ReceivedResults::default(), 3).unwrap();
    let foreign = disk.fork(1);
    foreign.put(&names[1], other.content(&names[0]));
    assert!(
        matches!(opens(&foreign), Err(Error::Foreign { file, found: 78, expected: 77 }) if file == names[1])
    );
    repairs(&foreign, &told, "foreign");

    // Records of another journal never pass as records of this one, because the id is part of each CRC.
    let (_, theirs) = (&first, other.content(&names[0]).unwrap());
    let mut mixed = first.clone();
    mixed[64..].copy_from_slice(&theirs[64..]);
    let smuggled = disk.fork(1);
    smuggled.put(&names[0], Some(mixed));
    assert!(matches!(
        replay(&opens(&smuggled).unwrap().0),
        (0, Some(Error::Damaged { lsn: 1, .. }))
    ));

    let newer = disk.fork(1);
    let mut header = first.clone();
    header[8] = 2;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..64]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    newer.put(&names[0], Some(header));
    assert!(matches!(opens(&newer), Err(Error::Version { file, found: 2 }) if file == names[0]));

    let short = disk.fork(1);
    let last = names.last().unwrap();
    let mut content = disk.content(last).unwrap();
    content.pop();
    short.put(last, Some(content));
    assert!(matches!(opens(&short), Err(Error::Damaged { file, offset: 4095, .. }) if file == *last));
    let report = repair(&short, Options::small()).unwrap();
    assert_eq!(
        (report.last_lsn, report.dropped_from),
        (told.durable, None),
        "{report:?}"
    );
    check(&opens(&short).unwrap().0, &told).unwrap();
}

#[test]
fn damage_in_the_middle_is_named_and_a_repair_keeps_the_records_before_it() {
    let (disk, told) = small();
    let names = logs(&disk);
    let mut places = Vec::new();
    dump(&disk, 0, |record| {
        places.push((record.lsn, record.segment, record.offset))
    })
    .unwrap();
    assert_eq!(places.len() as u64, told.durable);
    let last: Lsn = names.last().unwrap()[..20].parse().unwrap();
    // The damaged record is the first record of the last segment: durable groups follow it.
    let (lsn, segment, offset) = *places.iter().find(|(_, segment, _)| *segment == last).unwrap();
    disk.rot(&format!("{segment:020}.log"), offset + 2, 4);
    let Err(error @ Error::Damaged { .. }) = opens(&disk).map(drop) else {
        panic!("opened");
    };
    let said = error.to_string();
    for part in [
        names.last().unwrap(),
        &format!("byte {offset}"),
        &format!("record {lsn}"),
        "repair",
    ] {
        assert!(said.contains(part), "{said}: {part}");
    }
    let mut shown = 0;
    assert!(matches!(
        dump(&disk, 0, |_| shown += 1),
        Err(Error::Damaged { .. })
    ));
    assert_eq!(shown, lsn - 1);
    let report = verify(&disk).unwrap();
    let expected = Finding {
        file: names.last().unwrap().clone(),
        offset,
        lsn,
        what: "the CRC is wrong".into(),
    };
    assert_eq!(report.findings, [expected]);
    let repaired = repair(&disk, Options::small()).unwrap();
    assert_eq!((repaired.last_lsn, repaired.dropped_from), (lsn - 1, Some(lsn)));
    assert_eq!(repaired.dropped_whole_records, told.durable - lsn);
    let (journal, recovery) = opens(&disk).unwrap();
    assert_eq!((recovery.last_lsn, recovery.cut_bytes), (lsn - 1, 0));
    assert_eq!(replay(&journal).0, lsn - 1);
}

#[test]
fn with_keep_records_no_snapshot_replaces_records() {
    let options = Options {
        keep_records: true,
        ..Options::small()
    };
    let (disk, told) = written(options);
    let (mut journal, _) = Journal::open(disk.fork(1), options).unwrap();
    assert!(matches!(journal.prune(9), Err(Error::NoSnapshot { .. })));
    let (mut journal, _) = opens(&disk).unwrap();
    assert!(matches!(journal.prune(9), Err(Error::NoSnapshot { .. })));

    let mut cut = 0;
    for name in logs(&disk) {
        for offset in (0..disk.content(&name).unwrap().len() as u64).step_by(11) {
            let rotten = disk.fork(offset);
            assert!(rotten.rot(&name, offset, 2));
            let at = format!("{name} at {offset}");
            let before = verify(&rotten).unwrap();
            // The snapshots contain the setting, so the options of the repair do not matter.
            let report = repair(&rotten, Options::small()).unwrap();
            // A damaged header costs no record, unlike a damaged record.
            let expected = if offset < 64 {
                told.durable
            } else {
                before.last_lsn
            };
            assert_eq!(report.last_lsn, expected, "{at}: {report:?}");
            let after = verify(&rotten).unwrap();
            assert!(after.is_sound() && after.first_lsn == 1, "{at}: {after:?}");
            let (mut journal, _) = Journal::open(rotten.clone(), options).unwrap();
            assert_eq!(replay(&journal).0, report.last_lsn, "{at}");
            assert!(
                after
                    .snapshots
                    .iter()
                    .all(|snapshot| snapshot.lsn <= report.last_lsn)
            );
            assert!(report.last_lsn <= told.durable);
            cut += u64::from(report.last_lsn < told.snapshot);
            journal.append(1, b"it goes on").unwrap();
            assert_eq!(journal.commit().unwrap(), report.last_lsn + 1, "{at}");
        }
    }
    assert!(cut > 100, "{cut}");
}

#[test]
fn a_snapshot_from_before_keep_records_was_set_replaces_no_records() {
    let disk = SimDisk::new(5);
    let mut told = ReceivedResults::default();
    let mut journal = Journal::create(disk.clone(), 77, Options::small()).unwrap();
    group(&mut journal, &mut told, 9).unwrap();
    snapshot(&mut journal, &mut told).unwrap();
    drop(journal);
    let keep_records = true;
    let options = Options {
        keep_records,
        ..Options::small()
    };
    let (mut journal, _) = Journal::open(disk.clone(), options).unwrap();
    group(&mut journal, &mut told, 9).unwrap();
    snapshot(&mut journal, &mut told).unwrap();
    drop(journal);
    let place = dump_place(&disk, 5);
    assert!(disk.rot(&logs(&disk)[0], place + 30, 1));
    let report = repair(&disk, Options::small()).unwrap();
    assert_eq!((report.last_lsn, report.dropped_from), (4, Some(5)), "{report:?}");
    assert!(verify(&disk).unwrap().snapshots.is_empty());
}

/// Returns the offset of a record in its segment.
fn dump_place(disk: &SimDisk, lsn: Lsn) -> u64 {
    let mut place = None;
    dump(disk, lsn, |record| {
        place.get_or_insert(record.offset);
    })
    .unwrap();
    place.unwrap()
}

#[test]
fn verify_and_dump_change_nothing() {
    let (disk, told) = small();
    let before = disk.counts();
    let report = verify(&disk).unwrap();
    assert_eq!(
        (report.records, report.last_lsn, report.snapshots.len()),
        (told.durable, told.durable, 2)
    );
    dump(&disk, 7, |record| assert!(record.lsn >= 7)).unwrap();
    assert_eq!(disk.counts().changes(), before.changes());
    assert!(matches!(verify(&SimDisk::new(1)), Err(Error::NoJournal)));
    assert!(matches!(dump(&SimDisk::new(1), 1, |_| ()), Err(Error::NoJournal)));
}

/// A segment gets its name after its first records are durable, so damage in these records is not an unfinished group.
#[test]
fn missing_first_records_of_a_segment_are_reported() {
    let begun = |records| {
        let (disk, mut told) = (SimDisk::new(5), ReceivedResults::default());
        let mut journal = Journal::create(disk.clone(), 77, Options::small()).unwrap();
        while logs(&disk).len() < 3 {
            group(&mut journal, &mut told, records).unwrap();
        }
        let last = logs(&disk).pop().unwrap();
        let first: Lsn = last[..20].parse().unwrap();
        (told.durable >= first + 2).then_some((disk, told, last, first))
    };
    let (disk, told, last, first) = (3..10)
        .find_map(begun)
        .expect("three records of one group begin a segment");
    let mut places = Vec::new();
    dump(&disk, first, |record| places.push((record.lsn, record.offset))).unwrap();
    for (lsn, offset) in &places {
        let rotten = disk.fork(1);
        rotten.rot(&last, offset + 9, 1);
        match opens(&rotten) {
            Err(Error::Damaged { lsn: named, .. }) => assert_eq!(named, *lsn),
            // Only the mark shows that more records followed the last complete one.
            Err(Error::EndLost { from, to, .. }) => {
                assert!(*lsn > first && (from, to) == (*lsn, told.durable));
            }
            other => panic!("{:?}", other.map(|(_, recovery)| recovery)),
        }
        repairs(&rotten, &told, &format!("record {lsn}"));
    }
    let empty = disk.fork(1);
    let mut content = disk.content(&last).unwrap();
    content[64..].fill(0);
    empty.put(&last, Some(content));
    assert!(matches!(opens(&empty), Err(Error::Damaged { offset: 64, .. })));
    let report = repair(&empty, Options::small()).unwrap();
    assert_eq!((report.last_lsn, report.dropped_from), (first - 1, Some(first)));
    assert_eq!(opens(&empty).unwrap().1.last_lsn, first - 1);
}
