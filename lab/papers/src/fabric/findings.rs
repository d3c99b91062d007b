//! Values of the paper next to those of Lineside.

use super::engines::{ENGINE_US, PEER_US, VALIDATORS, engines_tps, validators_for};
use super::packets::{BLOCK, ENDORSEMENTS, FRAME_BYTES, Row};
use super::{PAPER, PaperRow};
use crate::section::{Finding, Verdict};
use crate::table::short;
use lineside_bench::fabric::{BlockTransfer, EndToEnd, PaperFigures};
use lineside_fabric_maker::Chaincode;

const TABLE: &str = "protocol table";
const PROTOCOL: &str = "protocol (a) to (c)";
const END_TO_END: &str = "end to end";
const ARCHITECTURE: &str = "4x2 to 16x2";
/// Rates in transactions per second that the paper's authors published: the slides and the first version of
/// arXiv 2104.06968 of April 2021, and its second version of September 2021.
const PUBLISHED_TPS: [(&str, f64); 2] = [
    ("95,600 tps (slides, April 2021)", 95_600.0),
    ("68,900 tps (second version, September 2021)", 68_900.0),
];
/// Validation latency of the paper in milliseconds.
const PAPER_LATENCY_MS: f64 = 5.0;
/// Ratios of compression between which the paper's are, and share of bandwidth that it saves, in percent.
const PAPER_COMPRESSION: [f64; 2] = [3.4, 5.3];
const PAPER_SAVED_PERCENT: f64 = 85.0;
/// Reduction of the tail latency of a block's transfer in the paper, in percent.
const PAPER_TAIL_PERCENT: f64 = 30.0;
/// Largest difference of DRM from smallbank, in percent, that is "similar".
const SIMILAR_PERCENT: f64 = 15.0;

fn finding(figure: &str, quantity: impl Into<String>, paper: impl Into<String>) -> Finding {
    Finding {
        figure: figure.to_owned(),
        quantity: quantity.into(),
        paper: paper.into(),
        paper_value: None,
        ours: None,
        unit: "",
        remark: String::new(),
        verdict: Verdict::None,
    }
}

/// Returns all findings in the order of the slides.
pub(super) fn all(rows: &[Row], measured: Option<&PaperFigures>) -> Vec<Finding> {
    let of = |chaincode| {
        rows.iter()
            .filter(move |row| row.case.chaincode == chaincode && row.case.block == BLOCK)
    };
    let smallbank: Vec<&Row> = of(Chaincode::Smallbank).collect();
    let drm: Vec<&Row> = of(Chaincode::Drm).collect();
    let mut found: Vec<Finding> = PAPER.iter().map(papers_data_rate).collect();
    found.extend(
        smallbank
            .iter()
            .filter_map(|row| Some(table_row(row, row.paper()?)))
            .flatten(),
    );
    found.extend(endorsement_bytes(&smallbank));
    for row in smallbank.iter().chain(&drm) {
        found.extend(compression(row));
    }
    for row in rows.iter().filter(|row| row.case.block != BLOCK) {
        found.extend(compression(row));
    }
    found.extend(similar_packets(&smallbank, &drm));
    if let Some(measured) = measured {
        let row = |transfer: &BlockTransfer| {
            rows.iter().find(|row| {
                let case = row.case;
                case.chaincode.name() == transfer.chaincode
                    && (case.block, case.endorsements) == (transfer.block, ENDORSEMENTS)
            })
        };
        for transfer in &measured.transfers {
            found.extend(transferred(transfer, row(transfer)));
        }
        for one in &measured.end_to_end {
            found.extend(end_to_end(one));
        }
        found.extend(similar_rates(&measured.end_to_end));
    }
    found.extend(engines());
    found
}

/// Returns the paper's data rate next to the one that its bytes and its rate give.
fn papers_data_rate(paper: &PaperRow) -> Finding {
    let bytes = f64::from(paper.packet_bytes);
    let gbit_per_s = |bytes: f64| bytes * 8.0 * paper.tps / 1e9;
    let framed = gbit_per_s(bytes + FRAME_BYTES as f64);
    let remark = format!(
        "computed: packet bytes x 8 x tps of the same row of the paper; with the headers of Ethernet, IP and UDP it is \
         {framed:.1} Gb/s, so the paper's column counts more than the packets"
    );
    Finding {
        paper_value: Some(paper.gbit_per_s),
        ours: Some(gbit_per_s(bytes)),
        unit: "Gb/s",
        remark,
        verdict: Verdict::Fails,
        ..finding(
            TABLE,
            format!(
                "data rate of the paper's own row, {}",
                endorsements(paper.endorsements)
            ),
            format!("{} Gb/s", paper.gbit_per_s),
        )
    }
}

fn endorsements(count: usize) -> String {
    match count {
        1 => "1 endorsement".to_owned(),
        count => format!("{count} endorsements"),
    }
}

fn table_row(row: &Row, paper: PaperRow) -> Vec<Finding> {
    let name = |quantity: &str| format!("{quantity}, {}", endorsements(paper.endorsements));
    let bytes = f64::from(paper.packet_bytes);
    vec![
        Finding {
            paper_value: Some(bytes),
            ours: Some(row.packet_bytes),
            unit: "B",
            remark: "the paper's transactions are not published; those of the maker have the shape of smallbank".into(),
            ..finding(TABLE, name("bytes of a transaction's packet"), format!("{bytes} B"))
        },
        Finding {
            paper_value: Some(paper.tps),
            ours: Some(row.receiver_tps),
            unit: "tps",
            remark: "one thread in software, by processor time, from packets to the block with its data hash; the \
                     paper's FPGA was driven by a packet generator"
                .into(),
            ..finding(
                TABLE,
                name("rate of the receiver"),
                format!("{:.2} M tps", paper.tps / 1e6),
            )
        },
        Finding {
            paper_value: Some(paper.gbit_per_s),
            ours: Some(row.receiver_gbit_per_s),
            unit: "Gb/s",
            remark: "all datagrams with their Ethernet frames, at the rate of the receiver".into(),
            ..finding(TABLE, name("data rate of the receiver"), format!("{} Gb/s", paper.gbit_per_s))
        },
    ]
}

/// Returns the bytes that each further endorsement adds to a packet.
fn endorsement_bytes(rows: &[&Row]) -> Option<Finding> {
    let (first, last) = (rows.first()?, rows.last()?);
    let more = last
        .case
        .endorsements
        .checked_sub(first.case.endorsements)
        .filter(|more| *more > 0)?;
    let of_paper = |row: &Row| row.paper().map(|paper| f64::from(paper.packet_bytes));
    let paper = (of_paper(last)? - of_paper(first)?) / more as f64;
    let ours = (last.packet_bytes - first.packet_bytes) / more as f64;
    Some(Finding {
        paper_value: Some(paper),
        ours: Some(ours),
        unit: "B",
        remark: "a signature and its annotations; the endorser's certificate is in the cache".into(),
        verdict: match (ours / paper - 1.0).abs() < 0.1 {
            true => Verdict::Holds,
            false => Verdict::None,
        },
        ..finding(
            TABLE,
            "bytes that each further endorsement adds to a packet",
            format!("{paper:.0} B (mean of the table)"),
        )
    })
}

/// Returns compression and saving of the datagrams against the bytes of the blocks.
fn compression(row: &Row) -> [Finding; 2] {
    let case = row.case;
    let name = format!(
        "{}, {}, {} transactions in a block",
        case.chaincode.name(),
        endorsements(case.endorsements),
        case.block
    );
    let compression = row.compression();
    let [least, most] = PAPER_COMPRESSION;
    [
        Finding {
            paper_value: Some(most),
            ours: Some(compression),
            unit: "x",
            remark: "bytes of the blocks divided by the payload of all datagrams; the ratio is against 5.3x"
                .into(),
            verdict: if compression >= least {
                Verdict::Holds
            } else {
                Verdict::None
            },
            ..finding(PROTOCOL, format!("compression, {name}"), "3.4x to 5.3x")
        },
        saved(format!("saved of the blocks' bytes, {name}"), row.saved_percent),
    ]
}

fn saved(quantity: String, percent: f64) -> Finding {
    Finding {
        paper_value: Some(PAPER_SAVED_PERCENT),
        ours: Some(percent),
        unit: "%",
        remark: "85 % saved is a compression of 6.7x, which is more than the paper's 5.3x, so its two values do not \
                 have the same base"
            .into(),
        verdict: if percent >= PAPER_SAVED_PERCENT { Verdict::Holds } else { Verdict::None },
        ..finding(PROTOCOL, quantity, "about 85 %")
    }
}

fn similar(figure: &str, quantity: &str, smallbank: f64, drm: f64) -> Finding {
    let ratio = drm / smallbank;
    Finding {
        paper_value: Some(1.0),
        ours: Some(ratio),
        remark: format!(
            "similar means at most {SIMILAR_PERCENT} % here; the paper's text has no values for DRM"
        ),
        verdict: match (100.0 * (ratio - 1.0)).abs() <= SIMILAR_PERCENT {
            true => Verdict::Holds,
            false => Verdict::None,
        },
        ..finding(figure, quantity, "similar")
    }
}

fn similar_packets(smallbank: &[&Row], drm: &[&Row]) -> Option<Finding> {
    let of = |rows: &[&Row]| {
        let row = rows.iter().find(|row| row.case.endorsements == ENDORSEMENTS)?;
        Some(row.packet_bytes)
    };
    let quantity = "bytes of a packet of DRM/smallbank, 2 endorsements";
    Some(similar(TABLE, quantity, of(smallbank)?, of(drm)?))
}

fn transferred(transfer: &BlockTransfer, papers: Option<&Row>) -> Vec<Finding> {
    let name = format!("{}, {} in a block", transfer.chaincode, transfer.block);
    let on_wire =
        "bytes on Ethernet; Deliver without TLS, its TCP payload counted and cut into full segments";
    let mut found = Vec::new();
    let formats = [
        papers.map(|row| ("the paper's packets", row.wire_bytes)),
        Some(("Lineside's UDP protocol", transfer.udp_bytes_per_tx)),
    ];
    for (format, bytes) in formats.into_iter().flatten() {
        let compression = transfer.deliver_bytes_per_tx / bytes;
        found.push(Finding {
            paper_value: Some(PAPER_COMPRESSION[1]),
            ours: Some(compression),
            unit: "x",
            remark: on_wire.into(),
            verdict: if compression >= PAPER_COMPRESSION[0] {
                Verdict::Holds
            } else {
                Verdict::None
            },
            ..finding(
                PROTOCOL,
                format!("Deliver's bytes/{format}, {name}"),
                "3.4x to 5.3x",
            )
        });
        let percent = 100.0 - 100.0 / compression;
        found.push(saved(
            format!("saved of Deliver's bytes by {format}, {name}"),
            percent,
        ));
    }
    let less = 100.0 - 100.0 * transfer.udp.p99_ms / transfer.deliver.p99_ms;
    found.push(Finding {
        paper_value: Some(PAPER_TAIL_PERCENT),
        ours: Some(less),
        unit: "%",
        remark: format!(
            "p99 {} ms by Deliver and {} ms by Lineside's UDP protocol at {} tps over loopback; medians {} and {} ms; \
             both ends share the cores of one machine",
            short(transfer.deliver.p99_ms),
            short(transfer.udp.p99_ms),
            short(transfer.offered_tps),
            short(transfer.deliver.p50_ms),
            short(transfer.udp.p50_ms),
        ),
        verdict: if less >= PAPER_TAIL_PERCENT { Verdict::Holds } else { Verdict::None },
        ..finding(PROTOCOL, format!("reduction of a block's tail latency by UDP, {name}"), "30 %")
    });
    found
}

fn end_to_end(one: &EndToEnd) -> Vec<Finding> {
    let EndToEnd {
        chaincode,
        block,
        endorsements,
        ..
    } = one;
    let name = format!("{chaincode}, {endorsements} endorsements, {block} in a block");
    let is_papers = *chaincode == Chaincode::Smallbank.name();
    let published = PUBLISHED_TPS.iter().filter(|_| is_papers);
    let mut found: Vec<Finding> = published
        .map(|(words, tps)| Finding {
            paper_value: Some(*tps),
            ours: Some(one.tps),
            unit: "tps",
            remark: "the authors' later version replaces 95,600 (17 times software) by 68,900 (12 times); Lineside: \
                     from blocks in memory to the durable ledger, two validating threads"
                .into(),
            ..finding(END_TO_END, format!("rate, {name}"), *words)
        })
        .collect();
    if !is_papers {
        found.push(Finding {
            ours: Some(one.tps),
            unit: "tps",
            ..finding(END_TO_END, format!("rate, {name}"), "similar to smallbank")
        });
    }
    let latency = |quantile: &str, ours: f64| Finding {
        paper_value: Some(PAPER_LATENCY_MS),
        ours: Some(ours),
        unit: "ms",
        remark: format!(
            "at half of the rate above ({} tps), from the arrival of a block until its fdatasync has returned; the \
             paper's latency ends with the validation",
            short(one.offered_tps)
        ),
        verdict: if ours <= PAPER_LATENCY_MS {
            Verdict::Holds
        } else {
            Verdict::None
        },
        ..finding(
            END_TO_END,
            format!("latency of a block, {quantile}, {name}"),
            "5 ms",
        )
    };
    found.push(latency("median", one.p50_ms));
    found.push(latency("p99", one.p99_ms));
    let [least, most] = PEER_US;
    found.push(Finding {
        ours: Some(one.cpu_us_per_tx),
        unit: "us",
        remark: format!(
            "a peer of Fabric 3.1.5 takes {least} to {most} us (recorded), so {} to {} cores for 95,600 tps",
            short((95_600.0 * least / 1e6).ceil()),
            short((95_600.0 * most / 1e6).ceil())
        ),
        ..finding(END_TO_END, format!("processor time of a transaction, {name}"), "")
    });
    found
}

fn similar_rates(all: &[EndToEnd]) -> Option<Finding> {
    let of = |chaincode: Chaincode| Some(all.iter().find(|one| one.chaincode == chaincode.name())?.tps);
    let quantity = "rate of DRM/smallbank";
    Some(similar(
        END_TO_END,
        quantity,
        of(Chaincode::Smallbank)?,
        of(Chaincode::Drm)?,
    ))
}

/// Returns the rates that the engines of the paper's architectures allow.
fn engines() -> Vec<Finding> {
    let mut found = Vec::new();
    for validators in VALIDATORS {
        for (engine, us) in ENGINE_US {
            found.push(Finding {
                ours: Some(engines_tps(validators, us, ENDORSEMENTS)),
                unit: "tps",
                remark:
                    "computed from the engines' published times, not measured: three verifications for each \
                         transaction, of its creator and of two endorsers"
                        .into(),
                ..finding(
                    ARCHITECTURE,
                    format!("rate of {validators}x2, {engine} (computed)"),
                    "",
                )
            });
        }
    }
    let (engine, us) = ENGINE_US[1];
    let [(_, published), _] = PUBLISHED_TPS;
    found.push(Finding {
        ours: Some(validators_for(published, us, ENDORSEMENTS)),
        remark: "computed: the slides do not say which architecture reached 95,600 tps; the largest whose size they \
                 give has 16 validators"
            .into(),
        ..finding(
            ARCHITECTURE,
            format!("validators of two engines for 95,600 tps, {engine} (computed)"),
            "at most 16 in the table of sizes",
        )
    });
    found
}
