// Package pb holds the protocol's messages. The generated code is committed; to make it again
// after a change of a .proto file, protoc and protoc-gen-go (the version of the protobuf module in
// go.mod) must be on the path.
//
// The files are compiled from the root of the module, so that they are registered under paths of
// their own: the official client registers its messages in the same registry.
package pb

//go:generate sh -c "cd ../../.. && protoc -I . --go_out=. --go_opt=paths=source_relative adapters/querator/pb/base/base.proto adapters/querator/pb/lease/lease.proto adapters/querator/pb/reserve/reserve.proto adapters/querator/pb/access/access.proto"
