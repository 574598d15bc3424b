package dataloader

// Domains of the random draws of samplers and of datasets of datasets.
const (
	domainWeighted   = 0x7765696768746564
	domainClass      = 0x636c617373000000
	domainBucket     = 0x6275636b65740000
	domainSplit      = 0x73706c6974000000
	domainConcat     = 0x636f6e6361740000
	domainInterleave = 0x696e7465726c7600
	domainRepeat     = 0x7265706561740000
	domainPairs      = 0x7061697273000000
	domainSkip       = 0x736b697000000000
	domainList       = 0x6c69737400000000
)
