package trainer

// Alone runs build while no model function runs. Tests that add nodes to a graph of their own need
// it if they run beside others: Gorgonia's graphs share package variables.
func Alone(build func()) {
	modelCalls <- struct{}{}
	defer func() { <-modelCalls }()
	build()
}
