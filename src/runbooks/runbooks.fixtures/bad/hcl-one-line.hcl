agent "worker" { run = "claude", mode = "headless" }
