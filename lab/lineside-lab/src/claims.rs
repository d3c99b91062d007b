//! `lineside-lab claims` checks the claims of CLAIMS.md: it runs their commands and compares the figures.

mod command;
mod judge;
mod machine;
mod page;
#[cfg(test)]
mod tests;

use anyhow::{Context, bail};
use clap::Args;
use command::Programs;
use judge::{Judge, Judged, Outcome};
use lineside::out::{Unwritten, counted};
use lineside::wrong::Wrong;
use lineside::{say, tell};
use machine::{ThisMachine, Work};
use page::{Claim, Page, Section};
use serde_json::{Value, json};
use std::path::PathBuf;

/// CLAIMS.md of the version from which this program was built.
const BUILT_IN: &str = include_str!("../../../CLAIMS.md");

/// Run the commands of CLAIMS.md and compare their figures with the claims. Prints which claims hold, which no longer
/// hold, and which could not be judged. Run it in the folder of the repository. Exit code 1 if a claim no longer holds.
#[derive(Args)]
pub struct Claims {
    /// File of claims, in the format that CLAIMS.md describes [default: the claims of this version]
    file: Option<PathBuf>,
    /// Print the claims and their commands, and run nothing.
    #[arg(long)]
    list: bool,
    /// Check only these claims.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Run only commands that together take at most this many minutes; commands are chosen in the order of the page.
    #[arg(long, value_name = "N")]
    minutes: Option<u32>,
    /// Also judge absolute figures, which are those of another machine unless this one is of the same kind.
    #[arg(long)]
    same_machine: bool,
}

/// Checks the claims and prints the results.
///
/// # Errors
/// The file of claims has a fault, a claim is unknown, or a claim no longer holds.
pub fn run(arguments: &Claims, as_json: bool) -> anyhow::Result<()> {
    let page = read(arguments)?;
    let selected = select(&page, &arguments.only)?;
    if arguments.list {
        return Ok(list(&selected, as_json)?);
    }
    let judged = check(arguments, &selected)?;
    print(&judged, as_json)?;
    match judged.iter().filter(|one| one.outcome == Outcome::Fails).count() {
        0 => Ok(()),
        failed => bail!("{} no longer true", holding(failed)),
    }
}

fn holding(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(count, "claim"))
}

/// Section of the page with those of its claims that the user selected.
struct Selected<'a> {
    section: &'a Section,
    claims: Vec<&'a Claim>,
}

fn read(arguments: &Claims) -> anyhow::Result<Page> {
    let Some(file) = &arguments.file else {
        return Page::parse(BUILT_IN).map_err(|fault| Wrong(format!("CLAIMS.md, {fault}")).into());
    };
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    Page::parse(&text).map_err(|fault| Wrong(format!("{name}, {fault}")).into())
}

fn select<'a>(page: &'a Page, only: &[String]) -> Result<Vec<Selected<'a>>, Wrong> {
    let claims = || page.sections.iter().flat_map(|section| &section.claims);
    if let Some(unknown) = only.iter().find(|id| claims().all(|claim| claim.id != **id)) {
        return Err(Wrong(format!(
            "--only: there is no claim `{unknown}`; --list prints all claims"
        )));
    }
    let is_asked = |claim: &&Claim| only.is_empty() || only.contains(&claim.id);
    let selected = page.sections.iter().map(|section| Selected {
        section,
        claims: section.claims.iter().filter(is_asked).collect(),
    });
    Ok(selected.filter(|one| !one.claims.is_empty()).collect())
}

fn list(selected: &[Selected<'_>], as_json: bool) -> Result<(), Unwritten> {
    for Selected { section, claims } in selected {
        if as_json {
            (claims.iter()).try_for_each(|claim| say!("{}", claim_object(section, claim)))?;
            continue;
        }
        let needs = match section.needs.as_slice() {
            [] => String::new(),
            needs => {
                let names: Vec<_> = needs.iter().map(|need| need.name()).collect();
                format!("; needs: {}", names.join(", "))
            }
        };
        say!(
            "{} ({}{needs})",
            section.command.join(" "),
            counted(section.minutes, "minute")
        )?;
        for claim in claims {
            say!("  {:<22} {}: {}", claim.id, claim.claimed_words(), claim.text)?;
        }
    }
    Ok(())
}

fn claim_object(section: &Section, claim: &Claim) -> Value {
    json!({
        "id": claim.id, "claim": claim.text, "page": claim.page, "command": section.command.join(" "),
        "section": section.name, "minutes": section.minutes, "figure": claim.figure.to_string(),
        "claimed": claim.claimed, "holds_if": claim.bound.to_string(), "machine": claim.machine.name(),
    })
}

/// Runs the commands of the selected sections, each once, and judges their claims.
fn check<'a>(arguments: &Claims, selected: &[Selected<'a>]) -> anyhow::Result<Vec<Judged<'a>>> {
    let programs = Programs::next_to_this_one()?;
    let machine = ThisMachine::new();
    let (mut judged, mut minutes) = (Vec::new(), 0);
    for (number, one) in selected.iter().enumerate() {
        let (section, claims) = (one.section, &one.claims);
        let judge = Judge {
            section,
            same_machine: arguments.same_machine,
        };
        let skip = |why: &str| -> Vec<Judged<'a>> {
            let each = |&claim: &&'a Claim| judge.not_judged(claim, why.to_owned());
            claims.iter().map(each).collect()
        };
        if arguments
            .minutes
            .is_some_and(|limit| minutes + section.minutes > limit)
        {
            judged.extend(skip("the limit of --minutes leaves no time for this command"));
            continue;
        }
        if let Some(why) = machine.lacks(&section.needs) {
            judged.extend(skip(&why));
            continue;
        }
        let before = if section.needs.contains(&page::Need::Quiet) {
            Work::of_others()
        } else {
            None
        };
        let busy = before.as_ref().and_then(Work::too_much);
        if let Some(why) = &busy
            && claims.iter().all(|claim| claim.machine != page::Machine::Any)
        {
            judged.extend(skip(why));
            continue;
        }
        minutes += section.minutes;
        tell!(
            "lineside: {} of {}: {} ({})",
            number + 1,
            selected.len(),
            section.command.join(" "),
            counted(section.minutes, "minute")
        );
        let stolen = machine::Stolen::now();
        let ran = programs.run(section);
        let busy = busy.or_else(|| stolen.and_then(|since| since.too_much()));
        judged.extend(
            claims
                .iter()
                .map(|&claim| judge.judge(claim, &ran, busy.as_deref())),
        );
    }
    Ok(judged)
}

fn print(judged: &[Judged<'_>], as_json: bool) -> Result<(), Unwritten> {
    let count = |outcome| judged.iter().filter(|one| one.outcome == outcome).count();
    let [holds, fails, not_judged] = [Outcome::Holds, Outcome::Fails, Outcome::NotJudged].map(count);
    if as_json {
        for one in judged {
            let mut object = claim_object(one.section, one.claim);
            object["found"] = json!(one.found);
            object["outcome"] = json!(one.outcome);
            object["reason"] = json!(one.why);
            say!("{object}")?;
        }
        return say!(
            "{}",
            json!({ "holds": holds, "no_longer_holds": fails, "not_judged": not_judged })
        );
    }
    for (outcome, heading) in [
        (Outcome::Holds, "holds"),
        (Outcome::NotJudged, "not judged"),
        (Outcome::Fails, "NO LONGER HOLDS"),
    ] {
        let of_this: Vec<_> = judged.iter().filter(|one| one.outcome == outcome).collect();
        if of_this.is_empty() {
            continue;
        }
        say!("{heading}")?;
        for one in of_this {
            let found = one
                .found
                .map_or_else(String::new, |value| format!("found {}, ", number(value)));
            let why = one
                .why
                .as_ref()
                .map_or_else(String::new, |why| format!(": {why}"));
            say!("  {:<22} {found}{}{why}", one.claim.id, one.claim.claimed_words())?;
            if outcome == Outcome::Fails {
                say!("    {}", one.claim.text)?;
                say!("    {}", one.section.command.join(" "))?;
            }
        }
    }
    say!("{holds} hold, {fails} no longer hold, {not_judged} not judged")
}

/// Returns a number with as many decimals as a reader needs: none above 1,000, and four significant digits below.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 {
        return format!("{value:.0}");
    }
    let decimals = (3.0 - value.abs().log10().floor()).clamp(0.0, 9.0);
    format!("{value:.*}", decimals as usize)
}
