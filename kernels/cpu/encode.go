package cpu

func bindEncode(b *binding) (func(), error) {
	encode := halfAt(b.dev.level, b.Out[0].Type).encode
	return b.converted(encode, b.bytes(b.Out[0]), b.bytes(b.In[0]), b.In[0].Shape.Elems(), 2, 4), nil
}
