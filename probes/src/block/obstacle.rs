//! Obstacles to an install on a disk, each with its kind, which decides whether an instruction may overrule it.

/// One reason why an install may not use a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Its kind.
    pub kind: ObstacleKind,
    /// The reason, as in `not_eligible_because`.
    pub text: String,
}

/// The kinds of obstacles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObstacleKind {
    /// The device cannot be meant as the target, e.g. an optical drive, the medium of the live system, a path of a
    /// multipath device, a disk whose blocks fit no image.
    Structural,
    /// A state that may end: locked, offline, without capacity.
    State,
    /// It says that its medium can be removed, as hot-plug bays and internal SD cards do, too.
    Removable,
    /// Its partition table is damaged, so that the content of its partitions is unknown.
    DamagedTable,
    /// It has more partitions than are read.
    ManyPartitions,
    /// It contains the image of a live system, which the running one may have been started from.
    LiveImage,
    /// Its end cannot be read.
    UnreadableEnd,
    /// Another disk has the same identity.
    SharedIdentity,
    /// A file system on it is mounted. Nothing unmounts it but a person.
    Mounted,
    /// It is active otherwise: a swap area, or held by a mapping or array, which can be taken down.
    Active,
    /// Its content belongs to an array or pool.
    Content,
    /// Something about it could not be determined.
    Unknown,
}

impl ObstacleKind {
    /// An obstacle of this kind.
    pub fn because(self, text: impl Into<String>) -> Obstacle {
        Obstacle { kind: self, text: text.into() }
    }
}
