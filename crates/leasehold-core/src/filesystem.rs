//! Which file systems can store locks: those whose locks only this kernel decides.
//!
//! **Unstable**, as [`backend`](crate::backend) is: it is for authors of engines.

/// Returns the kind of file system that reports this `f_type`, if locks must not be stored on it.
/// On network file systems, the crash or cache of another machine decides; a FUSE file system may
/// do anything.
///
/// Numbers from `statfs(2)` and the kernel's `magic.h`.
pub fn refused(f_type: u32) -> Option<&'static str> {
    Some(match f_type {
        0x6969 => "NFS",
        0x517B => "SMB",
        0xFE53_4D42 => "SMB2",
        0xFF53_4D42 => "CIFS",
        0x564C => "NCP",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0102_1997 => "9P",
        0x00C3_6400 => "Ceph",
        0x0BD0_0BD0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x7461_636F => "OCFS2",
        0x0116_1970 => "GFS2",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        0xAAD7_AAEA => "PanFS",
        0x786F_4256 => "VirtualBox shared folder",
        0x6573_5546 => "FUSE",
        _ => return None,
    })
}

/// Returns true for a file system that loses its files at a restart of the machine.
pub fn forgets(f_type: u32) -> bool {
    matches!(f_type, 0x0102_1994 | 0x8584_58F6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_and_local_ones_are_not() {
        for (f_type, kind) in
            [(0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (0x0102_1997, "9P"), (0x6573_5546, "FUSE")]
        {
            assert_eq!(refused(f_type), Some(kind));
        }
        let local = [
            ("ext4", 0xEF53),
            ("xfs", 0x5846_5342),
            ("btrfs", 0x9123_683E),
            ("tmpfs", 0x0102_1994),
            ("overlay", 0x794C_7630),
            ("zfs", 0x2FC1_2FC1),
            ("f2fs", 0xF2F5_2010),
        ];
        for (name, f_type) in local {
            assert_eq!(refused(f_type), None, "{name}");
            assert_eq!(forgets(f_type), name == "tmpfs", "{name}");
        }
    }
}
