agent "worker" {
  run        = "claude"
  idel_after = "5m"
}
