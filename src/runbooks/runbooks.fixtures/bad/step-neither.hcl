pipeline "ci" {
  step "build" {
    timeout = "5m"
  }
}
