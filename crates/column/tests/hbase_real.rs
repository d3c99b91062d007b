//! HBase's own RPC against a real HBase.

use lineside_column::hbase::HBase;
use lineside_column::table::{Change, Changed, ColumnName, Nonce, Stretch, Table};
use lineside_hbase_mini::{Error, Jars, Options};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

fn name(text: &str) -> ColumnName {
    ColumnName::new(text.as_bytes()).unwrap()
}

#[test]
fn first() {
    let jars = match Jars::build() {
        Err(error @ Error::NotHere(_)) => {
            eprintln!("skipped: {error}");
            return;
        }
        jars => jars.unwrap(),
    };
    let mut hbase = jars.start(&Options::default()).unwrap();
    hbase.command("create t entry h q").unwrap();
    let server = format!("127.0.0.1:{}", hbase.ports.master);
    let table = HBase::connect(&[&server], b"t", TIMEOUT).unwrap();
    let foo = name("entry:foo");
    for row in [b"a", b"h", b"k", b"q", b"z"] {
        assert_eq!(
            table.change(row, &foo, &Change::Put(row.to_vec(), None), Nonce::default()),
            Ok(Changed::Done)
        );
    }
    println!("{:?}", table.get(b"k", &[foo]));
    for reverse in [false, true] {
        let stretch = Stretch {
            low: b"".to_vec(),
            high: None,
            limit: 10,
            reverse,
        };
        println!("{:?}", table.scan(&stretch, &[foo]));
    }
    for change in [
        Change::Increment(5),
        Change::Append(b"x".to_vec()),
        Change::Delete,
        Change::CheckAndPut {
            expected: None,
            value: b"v".to_vec(),
        },
        Change::CheckAndPut {
            expected: None,
            value: b"v".to_vec(),
        },
    ] {
        println!("{:?}", table.change(b"n", &foo, &change, Nonce::default()));
    }
}
