//! Paths of the installed package.

/// Configuration of the service of systemd.
pub const CONFIGURATION: &str = "/etc/lineside/lineside.toml";
/// Home and working directory of the service's user.
pub const DATA: &str = "/var/lib/lineside";
/// Directory for pinned maps and programs; the default of `pin_dir` in `[datapath]`.
pub const PINS: &str = "/sys/fs/bpf/lineside";

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_service::DatapathConfig;
    use std::path::Path;

    #[test]
    fn the_package_has_these_paths() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |file: &str| std::fs::read_to_string(root.join(file)).expect(file);
        let unit = read("../../packaging/lineside.service");
        for line in [
            format!("ExecStart=/usr/bin/lineside run --config {CONFIGURATION}\n"),
            format!("WorkingDirectory={DATA}\n"),
            format!("ReadWritePaths=-{PINS}\n"),
        ] {
            assert!(unit.contains(&line), "{line}: {unit}");
        }
        let installed = format!("\"{}\"", CONFIGURATION.trim_start_matches('/'));
        assert!(read("Cargo.toml").contains(&installed), "{installed}");
        assert_eq!(DatapathConfig::default().pin_dir, Path::new(PINS));
    }
}
