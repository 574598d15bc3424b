package cuda

// bindReshape copies, where the output does not lie on the input already.
func bindReshape(b *binding) error {
	b.copy(b.out(0), b.in(0), b.Out[0].Bytes())
	return nil
}
