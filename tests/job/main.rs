//! The job against a mock VIM and a fake installer.
