agent "worker" {
  run = "claude"
}

agent "worker" {
  run = "claude"
}
