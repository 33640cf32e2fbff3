// Package script is the pgbench language.
package script
