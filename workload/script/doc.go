// Package script reads the scripts that a load is made of. They are written in
// pgbench's language; so far its SQL is understood, not yet its backslash
// commands.
//
// A script is a list of commands, and one pass through it is a transaction.
// [Parse] splits a text into commands just as pgbench does, because a command
// is a round trip to the server: whoever splits differently measures something
// else. The rules:
//
//   - A semicolon outside quotes, comments and parentheses ends a command and
//     stays in the text that is sent. The body of a CREATE FUNCTION or
//     PROCEDURE written as BEGIN ATOMIC ... END is not cut.
//   - \; stands for a semicolon that does not end the command (several
//     statements in one round trip), \: for a colon.
//   - Blanks and -- comments before a command are dropped, those inside are
//     sent. A comment of the other kind is sent, even alone.
//   - A reference :name is replaced by the variable's value, wherever it
//     stands, quotes and comments included. There are two ways, and the
//     protocol chooses: [Substitute] puts the value's text into the
//     statement (simple), [Placeholders] turns each reference into a
//     parameter $1, $2, ... (extended and prepared).
//
// Backslash commands are other kinds of [Command]; the parser has one place
// where a backslash is met, and a [Kind] tells commands apart.
//
// Mistakes come as [*Error] with the place, the line and a caret.
package script
