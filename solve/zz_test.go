package solve_test
import ("testing";"math/rand/v2";"math";"time"
"gonum.org/v1/gonum/mat"
"surepipe/array";"surepipe/linops";"surepipe/prox";"surepipe/solve")
func TestZZ(t *testing.T){
 n:=256
 dev:=array.NewHost(); rng:=rand.New(rand.NewPCG(1,2))
 y:=make([]float64,n*n); for i:=range n { for j:=range n { v:=0.2; if (i-n/2)*(i-n/2)+(j-n/3)*(j-n/3)<n*n/16 {v=.8}; v+=0.1*math.Sin(float64(i)/9); y[i*n+j]=v+0.02*rng.NormFloat64() } }
 h:=make([]float64,13*13); s:=0.0; for i:=range 13 { for j:=range 13 { v:=math.Exp(-float64((i-6)*(i-6)+(j-6)*(j-6))/4.5); h[i*13+j]=v; s+=v } }; for i:=range h { h[i]/=s }
 a,_:=linops.NewConvolution2D(n,n,mat.NewDense(13,13,h),linops.ZeroPadded)
 p:=solve.Problem{A:a,K:linops.NewGradient([]int{n,n},nil,linops.Reflecting),R:prox.NewJointL2(n*n,2,0.002),Device:dev}
 sv,err:=solve.New(t.Context(),"admm",p,solve.Options{Tol:1e-4,Sigma2:4e-4}); if err!=nil {t.Fatal(err)}
 on:=dev.Put(y,1,n*n)
 t0:=time.Now(); sol,err:=sv.Solve(t.Context(),on,solve.From{}); if err!=nil {t.Fatal(err)}
 t.Log(sol.Iterations, sol.Optimality, time.Since(t0), time.Since(t0)/time.Duration(sol.Iterations))
}
