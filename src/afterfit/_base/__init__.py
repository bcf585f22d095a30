"""What everything rests on: errors, rules, specifications, files, the machine."""
