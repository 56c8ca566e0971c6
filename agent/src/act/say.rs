//! Messages that name parts of an order, before it is known what the fleet that ordered calls them.
//!
//! A VIM calls an order `the instruction`, Ironic calls it `instance_info`, and on a command line it is a set of options.
//! A message therefore contains a [`Term`] where these differ, and each engine has a function that gives its word for
//! every term. Text from outside (serial numbers, paths, what a server said) is a piece of its own and never altered.

use std::fmt;

/// A word that each engine has its own for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// The source of the install order, e.g. `the instruction`.
    Order,
    /// The sender's knowledge of the disk, e.g. `the VIM's record`.
    Record,
    /// The digest of the Ignition config as ordered.
    IgnitionHash,
    /// The digest of the image as ordered.
    ImageHash,
    /// Advice on ordering an image: `name an image in the instruction`.
    NameImage,
    /// Advice on installing an image without a signature: `set insecure in the instruction`.
    AllowUnsigned,
    /// Advice on a finding that should not prevent the install: `name it in block_except of the instruction`.
    ExceptFinding,
    /// Advice on choosing among several disks, after a list of other ways: `, or set if_several`.
    OrIfSeveral,
    /// How to leave unread the configs that another one names, after a comma; empty if that is not possible.
    OrSkipPointers,
    /// Advice on overwriting existing data: `set existing_data to wipe`.
    SetWipe,
    /// Advice on carrying out a request that is done: `set reinstall`.
    Reinstall,
    /// Advice on what only an override allows, before its words: `add to override: `.
    AddOverride,
    /// The source of the Ignition config.
    Ignition,
    /// The image.
    Image,
    /// The key of the image's digest.
    ImageHashKey,
    /// The permission to install an image without a signature.
    Insecure,
    /// The path of the disk.
    Device,
    /// The root device hints.
    Hints,
    /// The policy for existing data.
    ExistingData,
    /// Findings that prevent the install too.
    BlockAlso,
    /// Findings that do not prevent the install.
    BlockExcept,
    /// All that ends up in the kernel arguments, as a list.
    KernelArguments,
    /// Kernel arguments to add.
    AppendKargs,
    /// Kernel arguments to remove.
    DeleteKargs,
    /// Consoles.
    Console,
    /// The Ignition platform.
    Platform,
    /// Kernel arguments of the first boot.
    FirstbootArgs,
    /// The request to copy network profiles.
    CopyNetwork,
    /// Labels of partitions to keep.
    SavePartlabel,
    /// Numbers of partitions to keep.
    SavePartindex,
    /// The amount of the disk that is read back.
    Verify,
}

/// The words of an engine: its word for every term.
pub type Words = fn(Term) -> &'static str;

/// The words of the log, which are those of no engine.
pub fn plain(term: Term) -> &'static str {
    match term {
        Term::Order => "the order",
        Term::Record => "the order's record",
        Term::IgnitionHash | Term::ImageHash => "the ordered hash",
        Term::NameImage => "order an image",
        Term::AllowUnsigned => "allow an image without a signature",
        Term::ExceptFinding => "except it in the order",
        Term::OrIfSeveral => ", or say which one of several",
        Term::OrSkipPointers => "",
        Term::SetWipe => "allow to overwrite any data",
        Term::Reinstall => "ask to install again",
        Term::AddOverride => "add to override: ",
        Term::Ignition => "ignition",
        Term::Image => "image",
        Term::ImageHashKey => "image.hash",
        Term::Insecure => "image.insecure",
        Term::Device => "device",
        Term::Hints => "hints",
        Term::ExistingData => "existing_data",
        Term::BlockAlso => "block_also",
        Term::BlockExcept => "block_except",
        Term::KernelArguments => "append_kargs, delete_kargs, platform and console",
        Term::AppendKargs => "append_kargs",
        Term::DeleteKargs => "delete_kargs",
        Term::Console => "console",
        Term::Platform => "platform",
        Term::FirstbootArgs => "firstboot_args",
        Term::CopyNetwork => "copy_network",
        Term::SavePartlabel => "save_partlabel",
        Term::SavePartindex => "save_partindex",
        Term::Verify => "verify",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(&'static str),
    Term(Term),
    Foreign(String),
}

/// A message in pieces: text of our own, terms, and text that may come from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Say(Vec<Piece>);

impl Say {
    /// The message with more at its end.
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// The message in the words of an engine.
    pub fn in_words(&self, words: Words) -> String {
        let text = |piece| match piece {
            &Piece::Text(text) => text,
            &Piece::Term(term) => words(term),
            Piece::Foreign(text) => text,
        };
        self.0.iter().map(text).collect()
    }
}

impl fmt::Display for Say {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(plain))
    }
}

impl From<&'static str> for Say {
    fn from(text: &'static str) -> Self {
        Self(vec![Piece::Text(text)])
    }
}

impl From<String> for Say {
    fn from(text: String) -> Self {
        Self(vec![Piece::Foreign(text)])
    }
}

impl From<Term> for Say {
    fn from(term: Term) -> Self {
        Self(vec![Piece::Term(term)])
    }
}

/// Joins texts and terms to a message.
macro_rules! say {
    ($($piece:expr),+ $(,)?) => { $crate::act::say::Say::default()$(.and($piece))+ };
}
pub(crate) use say;
