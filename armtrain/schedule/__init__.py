"""From a program to times: when each storage must hold its bytes."""
