package layers

import (
	"gorgonia.org/gorgonia"
)

// Objective is one of several losses of a model. A trainer has a program for each: a step of an
// objective minimises its loss over its parameters, and all other parameters are constants in it.
//
//	Objectives: []layers.Objective{
//		{Name: "discriminator", Loss: real, Params: []string{"d/"}},
//		{Name: "generator", Loss: fake, Params: []string{"g/"}},
//	}
type Objective struct {
	// Name is unique in the model and contains neither "/" nor "#".
	Name string
	// Loss is as Model.Loss, and Weight as Model.Weight. Weight may be nil.
	Loss, Weight *gorgonia.Node
	// Params are patterns for the names of the parameters that it trains: the name of a parameter or
	// of a layer, a prefix that ends in "/", or a pattern of [path.Match], where "*" does not match
	// "/". Each pattern must match a parameter, and Loss must depend on each parameter that is not
	// frozen. Nil: it trains all parameters of the model. A parameter may belong to several
	// objectives.
	Params []string
}
