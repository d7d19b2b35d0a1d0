agent "worker" {
  run     = "claude"
  on_idle = "gate"
}
