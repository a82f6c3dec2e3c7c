//! The documentation is true as far as a program can tell: links lead somewhere, every page is in the table of contents, and the
//! reasons, conditions, fields, commands and metrics that pages name are those of the code.

mod commands;
mod fields;
mod links;
mod names;
mod pages;
