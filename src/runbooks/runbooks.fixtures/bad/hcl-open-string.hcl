agent "worker" {
  run = "claude
}
