package script

// Script is a parsed script: a list of commands.
type Script struct {
	Name     string // as shown: a built-in's name or the file's name
	Text     string
	Commands []Command
}

// Command is one SQL command of a script.
type Command struct {
	SQL  string   // its text, final semicolon included as it is sent
	Line int      // where it begins, from 1
	Vars []string // names of the variables it refers to, in order, once per occurrence
}
