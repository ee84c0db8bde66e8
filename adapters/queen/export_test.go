package queen

// RouteTable lists the method and path of every route.
func RouteTable() [][2]string {
	out := make([][2]string, 0, len(routes))
	for _, r := range allRoutes() {
		out = append(out, [2]string{r.method, r.path})
	}
	return out
}
