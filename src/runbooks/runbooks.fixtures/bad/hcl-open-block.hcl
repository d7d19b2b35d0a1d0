agent "worker" {
  run = "claude"
